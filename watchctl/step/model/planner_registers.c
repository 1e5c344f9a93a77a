#include "watchctl/step/model/planner_registers.h"

#include <stdlib.h>

#include "watchctl/base/error.h"
#include "watchctl/code/insn/result_use.h"

#define REGISTERS 6u
#define REGISTER_TYPE 0u /* the only one */

struct planner {
	struct function_plan plan; /* of every function */
	struct function_param param[REGISTERS];
};

static const char *version(void)
{
	return "watchctl " WATCHCTL_VERSION;
}

static struct fetch register_fetch(uint8_t reg)
{
	return (struct fetch){ .op = FETCH_GPR, .reg = reg, .len = sizeof(uint64_t) };
}

static struct param_recipe recipe(uint8_t fetch)
{
	return (struct param_recipe){ .state = VALUE_OK, .first = fetch, .count = 1, .to = PLAN_FETCHES };
}

static struct wc_error *open_registers(const char *exe, const struct planner_options *o, struct planner **ret)
{
	static const struct {
		const char *name;
		uint8_t reg;
	} argument[REGISTERS] = { { "rdi", WREG_RDI }, { "rsi", WREG_RSI }, { "rdx", WREG_RDX },
				  { "rcx", WREG_RCX }, { "r8", WREG_R8 },   { "r9", WREG_R9 } };
	struct planner *p = calloc(1, sizeof(*p));
	struct function_plan *plan;

	(void)exe;
	(void)o;
	if (!p)
		return &wc_enomem;
	plan = &p->plan;
	plan->function = (struct function_event){
		.flags = FUNCTION_NO_TYPES,
		.return_type = REGISTER_TYPE,
		.nparams = REGISTERS,
		.param = p->param,
	};
	for (uint8_t i = 0; i < REGISTERS; i++) {
		p->param[i] = (struct function_param){ argument[i].name, REGISTER_TYPE };
		plan->plan.entry.v[i] = register_fetch(argument[i].reg);
		plan->recipe[i] = recipe(i);
	}
	plan->plan.entry.n = REGISTERS;
	plan->plan.leave.v[0] = register_fetch(WREG_RAX);
	plan->plan.leave.n = 1;
	plan->result = recipe(0);
	*ret = p;
	return NULL;
}

static struct wc_error *set_modules(struct planner *p, const struct module_list *modules)
{
	(void)p;
	(void)modules;
	return NULL;
}

static struct wc_error *functions(struct planner *p, const struct module *m, bool stubs,
				  struct planner_list *ret)
{
	(void)p;
	(void)m;
	(void)stubs;
	*ret = (struct planner_list){ 0 };
	return NULL;
}

static struct wc_error *plan_function(struct planner *p, uint64_t address, bool over,
				      const struct function_plan **ret)
{
	(void)address;
	(void)over;
	*ret = &p->plan;
	return NULL;
}

/* It knows no code. */
static enum result_use result_use(struct planner *p, uint64_t return_address, bool vector)
{
	(void)p;
	(void)return_address;
	(void)vector;
	return RESULT_READ;
}

static const struct type_event *type(struct planner *p, uint32_t id)
{
	static const struct type_event only = {
		.id = REGISTER_TYPE, .kind = TYPE_REGISTER, .size = sizeof(uint64_t), .target = NO_TYPE
	};

	(void)p;
	return id == REGISTER_TYPE ? &only : NULL;
}

static void close_registers(struct planner *p)
{
	free(p);
}

const struct planner_ops planner_registers = {
	.name = "registers",
	.version = version,
	.open = open_registers,
	.set_modules = set_modules,
	.functions = functions,
	.plan = plan_function,
	.result_use = result_use,
	.type = type,
	.close = close_registers,
};
