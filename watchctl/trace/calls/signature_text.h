/*
 * signature_text - a function's types, as the pass writes them into a program and the runtime reads them: lines.
 *
 *	signature	type of the result, then for each parameter: 'p' NAME, type
 *	type		KIND SIZE ' ' NAME		SIZE in bytes, decimal; NAME as the source has it
 *			of 'e' and 'E': as many lines '=' VALUE ' ' NAME as there are, then '.'
 *			of 'p' and 's': the type that it points to; of 'a': that of an element
 *	KIND		i signed, u unsigned, b bool, c signed char, f float, e enumeration, E a signed one, p pointer,
 *			s pointer to a string that is recorded, a array, v void, x code, ? another
 */
#ifndef WATCHCTL_TRACE_CALLS_SIGNATURE_TEXT_H
#define WATCHCTL_TRACE_CALLS_SIGNATURE_TEXT_H

enum signature_kind {
	SIGNATURE_SIGNED = 'i',
	SIGNATURE_UNSIGNED = 'u',
	SIGNATURE_BOOL = 'b',
	SIGNATURE_CHAR = 'c',
	SIGNATURE_FLOAT = 'f',
	SIGNATURE_ENUM = 'e',
	SIGNATURE_SIGNED_ENUM = 'E',
	SIGNATURE_POINTER = 'p',
	SIGNATURE_STRING = 's',
	SIGNATURE_ARRAY = 'a',
	SIGNATURE_VOID = 'v',
	SIGNATURE_CODE = 'x',
	SIGNATURE_OTHER = '?',
};

#define SIGNATURE_PARAM 'p'
#define SIGNATURE_ENUMERATOR '='
#define SIGNATURE_END '.'
#define SIGNATURE_ENUMERATORS_MAX 64 /* of a type: those beyond are shown as numbers */
#define SIGNATURE_DEPTH_MAX 4	     /* pointers to pointers: what lies deeper is SIGNATURE_OTHER */

#endif
