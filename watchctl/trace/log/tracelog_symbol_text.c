/* Apart from tracelog_symbols.c, because the writer of every log needs it, libstackwalk's too. */
#include "watchctl/trace/log/tracelog_format.h"

const char tracelog_symbol_event_text[] = "event {\n"
					  "\tname = \"symbol\";\n\tid = 13;\n\tstream_id = 0;\n"
					  "\tfields := struct {\n"
					  "\t\thex64_t address;\n"
					  "\t\thex64_t start;\n"
					  "\t\tstring path;\n"
					  "\t\tstring build_id;\n"
					  "\t\tuint32_t nfunctions;\n"
					  "\t\tstruct {\n"
					  "\t\t\tuint32_t line;\n"
					  "\t\t\tstring name;\n"
					  "\t\t\tstring file;\n"
					  "\t\t} function[nfunctions];\n"
					  "\t};\n"
					  "};\n";
