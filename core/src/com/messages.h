/* The system's texts and names of HRESULTs. */
#ifndef SS_MESSAGES_H
#define SS_MESSAGES_H

#include "base/platform.h"
#include <stacksplice/winrt/winerror.h>

/*
 * The text of HR with its "\r\n", and a NUL.  An HRESULT without a text gets the sentence that
 * says so (the text of RO_E_ERROR_STRING_NOT_FOUND).  Static; *LENGTH is its units.
 */
const WCHAR *ss_message_text(HRESULT hr, uint32_t *length);

/* "E_INVALIDARG" for a code with a name, or NULL. */
const char *ss_hresult_symbol(HRESULT hr);

#endif
