/* Writes errors as JSON, in the form of stacksplice-error/1. */
#ifndef SSI_REPORT_ERROR_H
#define SSI_REPORT_ERROR_H

#include "errors/errors.h"

/* A comma, NAME and ERROR; nothing if that is NULL. */
void ssi_put_error(const char *name, const ssi_errors *errors, const ssi_error *error);
/* A comma and the member "interpreters"; nothing if no binding knows one. */
void ssi_put_interpreters(const ssi_errors *errors);

#endif
