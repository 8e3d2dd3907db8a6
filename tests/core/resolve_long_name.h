/* A C++ function of 900 stars, for which demanglers take hundreds of kilobytes of the stack. */
#ifndef RESOLVE_LONG_NAME_H
#define RESOLVE_LONG_NAME_H

#define TEN_POINTERS "PPPPPPPPPP"
#define HUNDRED_POINTERS                                                                       \
    TEN_POINTERS TEN_POINTERS TEN_POINTERS TEN_POINTERS TEN_POINTERS TEN_POINTERS TEN_POINTERS \
        TEN_POINTERS TEN_POINTERS TEN_POINTERS

/* f(int***...) */
#define STRIPPED_LONG_NAME                                                                      \
    "_Z1f" HUNDRED_POINTERS HUNDRED_POINTERS HUNDRED_POINTERS HUNDRED_POINTERS HUNDRED_POINTERS \
        HUNDRED_POINTERS HUNDRED_POINTERS HUNDRED_POINTERS HUNDRED_POINTERS "i"

#endif
