/* Built without debug information and stripped: one name is exported, the other is lost. */
#include "resolve_long_name.h"

#include <stdint.h>

#define EXPORT __attribute__((visibility("default"), noinline))

EXPORT uintptr_t stripped_call(uintptr_t *hidden);
EXPORT uintptr_t stripped_hidden_begin(void);
EXPORT uintptr_t long_name(void) __asm__(STRIPPED_LONG_NAME);

__attribute__((noinline)) static uintptr_t return_address(void)
{
    uintptr_t address = (uintptr_t)__builtin_return_address(0);

    __asm__ volatile("" : "+r"(address)::"memory");
    return address;
}

__attribute__((noinline)) static uintptr_t hidden_function(void)
{
    uintptr_t address = return_address();

    __asm__ volatile("" : "+r"(address)::"memory");
    return address;
}

uintptr_t stripped_call(uintptr_t *hidden)
{
    uintptr_t address;

    *hidden = hidden_function();
    address = return_address();
    __asm__ volatile("" : "+r"(address)::"memory");
    return address;
}

uintptr_t stripped_hidden_begin(void)
{
    return (uintptr_t)hidden_function;
}

uintptr_t long_name(void)
{
    return return_address();
}
