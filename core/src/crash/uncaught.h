/* Exceptions that nobody catches: the terminate handlers of the C++ libraries of this process. */
#ifndef SS_UNCAUGHT_H
#define SS_UNCAUGHT_H

/* Put ours in front, in each library that a binary told of and that is told of later. */
void ss_uncaught_watch(void);

#endif
