/*
 * For programs that embed tiny: errors that cross between tiny and C with one combined stack, one
 * error object and the script's own error kept.  docs/inside/bindings.md explains how it is made.
 *
 * HRESULTs.  The error of no memory is E_OUTOFMEMORY.  Another one has that of its type: "argument"
 * E_INVALIDARG, "access" E_ACCESSDENIED, "bounds" E_BOUNDS, "abort" E_ABORT; else E_FAIL.
 *
 * Scripts have one more function: report ERROR gives a string with the whole report.
 */
#ifndef STACKSPLICE_TINY_H
#define STACKSPLICE_TINY_H

#include <tiny.h>

#include <stacksplice/script.h>

/*
 * Bind T, before its first function runs.
 * Errors: E_OUTOFMEMORY. [thread: T's | alloc: yes]
 */
stacksplice_hresult stacksplice_tiny_open(tiny *t);

/* Before tiny_close: errors that others hold lose their tiny_object, nothing else. [thread: T's] */
void stacksplice_tiny_close(tiny *t);

/*
 * tiny_call whose failure becomes the thread's error.  *RESULT is the caller's on success, else
 * nil. [thread: T's | alloc: on failure]
 */
stacksplice_hresult stacksplice_tiny_call(tiny *t, const char *name, const tiny_value *arguments,
                                          int count, tiny_value *result);

/*
 * Make ERROR the thread's error and return its HRESULT: with the stack of its first throw; as the
 * very same error object where it has been an error before.  [own: borrows ERROR | thread: T's]
 */
stacksplice_hresult stacksplice_tiny_originate(tiny *t, tiny_object *error);

/*
 * Throw the thread's error in T, for a function in C:
 *     return stacksplice_tiny_raise(t, hr);
 * What was born in T is the very same tiny_object; any other error is a tiny_object with its type
 * and message, the same one while T has it.  The error gets a propagation node and leaves the slot.
 * [thread: T's | alloc: yes]
 */
tiny_value stacksplice_tiny_raise(tiny *t, stacksplice_hresult hr);

/*
 * The error object of ERROR, made if need be; the slot stays as it was.  S_FALSE and NULL when
 * origination is switched off.
 * Errors: E_OUTOFMEMORY. [own: caller releases *out | thread: T's | alloc: yes]
 */
stacksplice_hresult stacksplice_tiny_error(tiny *t, tiny_object *error, IScriptErrorInfo **out);

/* The tiny_object that LANGUAGE_EXCEPTION stands for, borrowed; NULL when it is not of T, or gone.
   [thread: T's] */
tiny_object *stacksplice_tiny_object(tiny *t, IUnknown *language_exception);

#endif
