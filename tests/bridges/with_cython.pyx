# cython: language_level=3
# Functions that call Python back: by themselves, and from the C library's qsort.

cdef extern from "stdlib.h":
    void qsort(void *base, size_t count, size_t size,
               int (*compare)(const void *, const void *) except? -7) except *

cdef object comparing = None

cdef int call(object function, int number) except? -1:
    return function(number)

def call_twice(function, int number):
    return call(function, number) + call(function, number)

cdef int compare(const void *a, const void *b) except? -7:
    return comparing((<const int *> a)[0], (<const int *> b)[0])

cdef object sort_numbers():
    cdef int numbers[2]
    numbers[0], numbers[1] = 2, 1
    qsort(numbers, 2, sizeof(int), compare)
    return numbers[0]

def sort(function):
    global comparing
    comparing = function
    return sort_numbers()
