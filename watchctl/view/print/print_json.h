/* print_json - the pieces of the lines that print_json*.c write. */
#ifndef WATCHCTL_VIEW_PRINT_PRINT_JSON_H
#define WATCHCTL_VIEW_PRINT_PRINT_JSON_H

#include "watchctl/view/print/printer.h"
#include "watchctl/view/words/json.h"

/* print_json.c: the pieces of its lines. */
void print_json_begin(struct printer *p, const char *type);
void print_json_end(struct printer *p);
void print_json_tag(struct json *j, const struct view_tag *tag);
void print_json_withheld(struct json *j, unsigned int what); /* WITHHELD_; absent when it is 0 */
void print_json_frame(struct json *j, const struct view_frame *f, bool with_ip);
/* Of a place in the real function @real; the line is that of @source, the innermost function there. */
void print_json_place(struct json *j, const struct view_frame *real, const struct view_frame *source);

void print_json_time(struct printer *p, struct view_time t);
void print_json_stack(struct json *j, const struct view_frame *frame, size_t nframes, enum walk_end end);
void print_json_source(struct json *j, const char *file, unsigned int line);

/* print_json_step.c */
void print_json_recording(void *ctx, const struct view_event *v);
void print_json_thread(void *ctx, const struct view_event *v);
void print_json_call(void *ctx, const struct view_call *c);
void print_json_return(void *ctx, const struct view_return *r);
void print_json_step(void *ctx, const struct view_step *s);
void print_json_signal(void *ctx, const struct view_signal *s);
void print_json_input(void *ctx, const struct view_input *i);
void print_json_blocked(void *ctx, const struct view_blocked *s);
void print_json_steps(void *ctx, const struct step_totals *t);

/* print_json_probe.c */
void print_json_probe_site(void *ctx, const struct view_probe_site *s, struct view_time time);
void print_json_probe(void *ctx, const struct view_probe *v);
void print_json_probe_total(void *ctx, const struct view_probe_site *s, struct view_time time);
void print_json_probes(void *ctx, const struct probe_totals *t);

/* print_json_tags.c */
void print_json_tags(void *ctx, const struct tag_totals *t);
void print_json_stacks(void *ctx, const struct stack_trees *t);

#endif
