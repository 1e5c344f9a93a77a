/* page_impl - what page.c collects and the writers of the page put into it. */
#ifndef WATCHCTL_VIEW_PAGE_PAGE_IMPL_H
#define WATCHCTL_VIEW_PAGE_PAGE_IMPL_H

#include "watchctl/view/event/listing.h"
#include "watchctl/view/page/page_clock.h"
#include "watchctl/view/page/page.h"
#include "watchctl/view/page/page_buckets.h"
#include "watchctl/view/page/page_choice.h"
#include "watchctl/view/page/page_events.h"
#include "watchctl/view/page/page_room.h"
#include "watchctl/view/page/page_tables.h"
#include "watchctl/view/table/probe_stacks.h"
#include "watchctl/view/table/sites.h"
#include "watchctl/view/words/json.h"

#define PAGE_PARTS 4096	    /* of the time of a watch, at most */
#define PAGE_LANE_PARTS 256 /* of a thread */
#define PAGE_LANES 64	    /* threads of a watch that have parts of their own */
#define PAGE_WATCHES 1000   /* that have a row */
#define PAGE_PICTURES 64    /* of these, that have parts */
#define PAGE_SITES 20000
#define PAGE_LISTINGS 400 /* sites with source and instructions */
#define PAGE_AROUND 7	  /* lines of source */
#define PAGE_INSNS 8	  /* instructions, on either side */
#define PAGE_VALUE_TEXTS 2000
#define PAGE_NOTES 1000
#define PAGE_PROCESSES 200

/*
 * Whose values are compared, besides the watches below: captures, and accesses whose site is not in the page.
 * The script knows by the place which series an event is in.
 */
#define PAGE_CAPTURES_SERIES (PAGE_SERIES - 1)
#define PAGE_REST_SERIES (PAGE_SERIES - 2)

struct page_watch {
	const struct view_watch *w;
	struct view_time armed;
	bool has_parts;
	struct page_buckets parts;
	struct page_buckets lane[PAGE_LANES]; /* by thread number */
	struct map64 texts;		      /* value -> char *: of types that are no plain numbers */
	bool has_summary;
	struct view_summary summary;
	uint64_t accesses, lost;
};

struct page_site {
	struct site *site;
	uint32_t watch;
	int32_t syscall; /* by the kernel: the one system call of all of its accesses; -1: none, -2: several
			  */
	bool listed;
	struct listing code, source;
};

struct page_note {
	char *text;
	uint64_t ns;
	bool is_loss;
	uint64_t count; /* of a loss */
};

struct page_process {
	int32_t pid;
	char *comm, *exe, *cmdline, *host;
	uint64_t ns;
};

struct page_source {
	const char *module, *file; /* as the symbolizer has them */
	char *path;		   /* NULL: not known */
};

struct page {
	struct annotate *annotate;
	struct page_options opt;
	struct page_clock clock;
	bool no_memory;	    /* some of it is missing: the page is not written */
	bool regs_withheld; /* those of some accesses were kept out of the log, or are to be of the page */

	struct page_watch **watch;
	size_t nwatches, watch_cap;
	struct sites sites;
	struct map64 site_index; /* struct site -> number + 1 */
	struct page_site *site;
	size_t nsites, site_cap;
	uint64_t sites_left_out;     /* accesses at sites that are not kept */
	const struct view_tag **tag; /* by number; of captures seen */
	size_t ntags, tag_cap;
	struct map64 tag_index;	    /* id -> number + 1 */
	struct probe_stacks probes; /* events of probes are in the page as captures are */
	struct page_tables tables;
	struct page_events events;
	struct page_choice choice;
	uint64_t seq, accesses, captures, captures_lost;
	bool has_capture_summary;
	struct view_summary capture_summary;

	struct page_process *process;
	size_t nprocesses, process_cap;
	struct page_note *note;
	size_t nnotes, note_cap, notes_left_out;
	struct page_source *source;
	size_t nsources, source_cap;
	uint64_t calls, returns, steps; /* of a step recording */
	char *recording;		/* its range, in words; NULL: none */
};

struct page_reported {
	const struct replay_ending *ending;
	size_t nevents; /* in the time line */
	struct page_detail **detail;
	size_t ndetails;

	/* Set by page_json(): so many of each found room in the page. */
	uint32_t watches, sites, threads, frames, stacks, tags;
	bool pictures_left_out;
};

/*
 * page_json.c: all that the script of the page reads, but for the events themselves, and how many there are,
 * which page_json_end() adds. False: no memory.
 */
bool page_json(struct page *p, struct page_reported *reported, struct json *j);
bool page_json_end(struct page *p, const struct page_reported *reported, struct json *j);

/* page_watch_json.c */
void page_summary_json(struct json *j, const char *name, const struct view_summary *s);
void page_watches_json(struct page *p, struct page_reported *reported, struct json *j);

/* page_tables_json.c: threads, frames, stacks and combinations; after sites and tags. */
void page_tables_json(struct page *p, struct page_reported *reported, struct json *j);

/* page_sites_json.c; after watches. */
void page_sites_json(struct page *p, struct page_reported *reported, struct json *j);

#endif
