/*
 * What C++ throws, and the errors of it.  stacksplice.hpp is built on these functions: the state
 * that all binaries of a process share is here, so that an exception has one error whichever binary
 * it leaves, and nothing points into a binary that may be unloaded.
 *
 * OBJECT is always an exception object as std::exception_ptr refers to it, in the layout of the
 * Itanium C++ ABI, which libstdc++ and libc++ share.
 */
#ifndef STACKSPLICE_THROWN_H
#define STACKSPLICE_THROWN_H

#include "script.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef STACKSPLICE_NO_WINRT

/*
 * The C++ library that throws, by its own functions for one reference on an exception object more
 * and one less.  Two copies of a library are two libraries: neither may handle the other's objects.
 */
typedef struct stacksplice_cpp_library {
    void (*hold)(void *reference);
    void (*release)(void *reference);
    int indirect; /* nonzero: REFERENCE is the address of a pointer to the object; else the object */
} stacksplice_cpp_library;

/*
 * The owner of LIBRARY's exceptions, whose language is "c++".  What it keeps as the value of a
 * language exception is an exception object with one reference.  NULL without memory.
 * [own: the process's, never closed | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_owner *stacksplice_cpp_owner(const stacksplice_cpp_library *library);

/*
 * Give OBJECT the error of TIES, until OBJECT is destroyed.  TYPE is its std::type_info.  OBJECT is
 * destroyed as always, but not by code that was unloaded.
 *
 * Returns S_OK, and TIES is empty; S_FALSE when TIES stays the caller's: OBJECT has an error
 * already, its header does not name TYPE, or there is no memory.
 * [thread: any that has a reference on OBJECT | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_thrown_tie(void *object, const void *type,
                                                           stacksplice_ties *ties);

/* Whether OBJECT has an error. [thread: any that has a reference on OBJECT | alloc: no | signal: no] */
STACKSPLICE_API int stacksplice_thrown_has_error(const void *object);

/*
 * Put the error that OBJECT has into the thread's slot, which then keeps OBJECT.  *HR receives its
 * HRESULT.  Returns S_OK; S_FALSE, and nothing is changed, when OBJECT has none.
 * [thread: any that has a reference on OBJECT | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_thrown_leave(void *object,
                                                             const stacksplice_cpp_library *library,
                                                             stacksplice_hresult *hr);

/*
 * The exception object of LIBRARY that ERROR keeps, with a reference for the caller; NULL if ERROR
 * is NULL or of something else, or if the code of its class was unloaded.
 * [thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API void *stacksplice_thrown_object(IRestrictedErrorInfo *error,
                                                const stacksplice_cpp_library *library);

/*
 * In the search phase of an exception: the stack pointer, at its call, of the innermost frame of the
 * function that begins at FUNCTION, outside of the frame ABOVE.  NULL if there is none, or if a frame
 * further in was guessed, so that another may be the innermost.  It asks no unwinder: a binary may have
 * a copy of its own, which is not the one that searches.
 * [thread: any | alloc: first walk | signal: yes]
 */
STACKSPLICE_API void *stacksplice_thrown_frame(const void *above, const void *function);

/*
 * What one binary knows of exceptions that nobody catches.  The core keeps the address, and sets the
 * last two members.
 */
typedef struct stacksplice_uncaught {
    /*
     * Make the exception that is being handled the thread's error, with the stack outside of the
     * frame ABOVE.  Returns 0 if there is none.
     */
    int (*report)(const void *above);
    void (*(*get)(void))(void);                  /* std::get_terminate of its C++ library */
    void (*(*set)(void (*handler)(void)))(void); /* std::set_terminate */
    struct stacksplice_uncaught *next;
    uint32_t library;
} stacksplice_uncaught;

/*
 * Tell the core of BINARY, when it is loaded and before it is unloaded.  While a crash handler is
 * installed (crash.h), or once stacksplice_report_uncaught was called, the C++ library of such a
 * binary has a terminate handler of the core, which makes an exception that nobody catches the
 * thread's error and goes on with the handler that was there before.
 * [own: borrows BINARY until it is removed | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API void stacksplice_uncaught_add(stacksplice_uncaught *binary);
STACKSPLICE_API void stacksplice_uncaught_remove(stacksplice_uncaught *binary);

/*
 * From now on these exceptions are reported without a crash handler, too, to stderr.
 * [thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API void stacksplice_report_uncaught(void);

#endif

#ifdef __cplusplus
}
#endif
#endif
