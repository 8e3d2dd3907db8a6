/*
 * The token of a place in a code object.  Strings are read in place.  A frame on this thread's
 * stack keeps its code, so we allocate nothing in the interpreter and need no lock.
 */
#include "frames/frames.h"
#include "frames/layout.h"
#include "frames/positions.h"
#include "frames/seen.h"
#include "frames/token_cache.h"
#include "frames/utf8.h"

#include <stdio.h>
#include <string.h>

enum {
    FILE_BYTES = 4104,
    FUNCTION_BYTES = 1032
}; /* more than a token keeps, so that it marks the cut */

/* TEXT as UTF-8: its own data when it is ASCII, else written to BUFFER and cut to fit. */
static const char *text_of(PyObject *text, char *buffer, size_t capacity)
{
    size_t used = 0;

    if (!text || !PyUnicode_Check(text))
        return NULL;
    if (PyUnicode_IS_COMPACT_ASCII(text))
        return (const char *)PyUnicode_DATA(text);
#if PY_VERSION_HEX < 0x030C0000
    if (!PyUnicode_IS_READY(text))
        return NULL;
#endif
    for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(text) && used + 5 <= capacity; i++)
        used += sspy_put_utf8(PyUnicode_READ_CHAR(text, i), buffer + used);
    buffer[used] = '\0';
    return buffer;
}

/* The character BACK places from the end of TEXT; BACK is from 1 to its length. */
static Py_UCS4 from_end(PyObject *text, Py_ssize_t back)
{
    return PyUnicode_READ_CHAR(text, PyUnicode_GET_LENGTH(text) - back);
}

/* Whether NAME is the last part of the qualified name WHOLE. */
static bool is_last_part(PyObject *name, PyObject *whole)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(name), of = PyUnicode_GET_LENGTH(whole);

    if (length > of || (length < of && from_end(whole, length + 1) != '.'))
        return false;
    if (PyUnicode_KIND(name) == PyUnicode_KIND(whole))
        return !memcmp(PyUnicode_DATA(name),
                       (const char *)PyUnicode_DATA(whole) + (of - length) * PyUnicode_KIND(whole),
                       (size_t)(length * PyUnicode_KIND(name)));
    while (length && from_end(name, length) == from_end(whole, length))
        length--;
    return !length;
}

/* A qualified name ends in the name that Python's tracebacks print, and is more precise.  Renamed
   code (templates, rebuilt tracebacks) keeps the qualified name of something else. */
static PyObject *shown_name(const PyCodeObject *code)
{
    PyObject *name = code->co_name, *whole = code->co_qualname;

#if PY_VERSION_HEX < 0x030C0000
    if (!PyUnicode_IS_READY(name) || !PyUnicode_IS_READY(whole))
        return name;
#endif
    return is_last_part(name, whole) ? whole : name;
}

/* LINE is a traceback's, which can be made by hand: the columns may belong to another line. */
static void set_place(stacksplice_token_info *info, const sspy_position *position, int line)
{
    info->line = line > 0 ? (uint32_t)line : position->line;
    if (!position->column || info->line != position->line)
        return;
    info->end_line = position->end_line;
    info->column = position->column;
    info->end_column = position->end_column;
}

/* Whether *TOKEN is that of its place, and not one that gives the reason for its absence. */
static bool make_token(const PyCodeObject *code, const sspy_position *position, int line,
                       stacksplice_trust trust, PyInterpreterState *interp, uintptr_t *token)
{
    char file[FILE_BYTES], function[FUNCTION_BYTES], name[40];
    int64_t id = PyInterpreterState_GetID(interp);
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_SCRIPT,
                                   .trust = trust,
                                   .language = "python"};

    set_place(&info, position, line);
    info.function = text_of(shown_name(code), function, sizeof function);
    info.file = text_of(code->co_filename, file, sizeof file);
    if (id > 0) {
        snprintf(name, sizeof name, "interpreter %lld", (long long)id);
        info.interpreter = name;
    }
    return stacksplice_intern(&info, token) == S_OK;
}

/* The key of the instruction in the table of tokens; 0 if LASTI, made by hand, is outside of
   CODE. */
static uintptr_t key_of(const PyCodeObject *code, int lasti, stacksplice_trust trust)
{
    uintptr_t place = sspy_instruction(code, lasti);

    if (lasti < 0 || lasti / SSPY_CODE_UNIT >= Py_SIZE(code))
        return 0;
    return trust == STACKSPLICE_TRUST_TRACEBACK ? sspy_traceback_key(place) : place;
}

uintptr_t sspy_token(PyCodeObject *code, int lasti, PyInterpreterState *interp)
{
    sspy_sight seen = {code, key_of(code, lasti, STACKSPLICE_TRUST_EXACT), interp};
    uint32_t epoch = stacksplice_token_epoch();
    uintptr_t token = seen.place ? sspy_seen_find(&seen) : 0;
    sspy_position position;

    if (token)
        return token;
    position = sspy_position_of(code, lasti);
    if (make_token(code, &position, 0, STACKSPLICE_TRUST_EXACT, interp, &token) && seen.place)
        sspy_seen_put(&seen, position.prefix, token, epoch);
    return token; /* make_token always sets one */
}

uintptr_t sspy_token_known(PyCodeObject *code, int lasti, int line, stacksplice_trust trust)
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    bool home = interp == atomic_load_explicit(&sspy_cache_home, memory_order_relaxed);
    uintptr_t key = home ? key_of(code, lasti, trust) : 0;
    uint32_t said = line > 0 ? (uint32_t)line : 0;
    uint32_t epoch = home ? sspy_cache_renew() : 0;
    uintptr_t token = key ? sspy_cache_find(key, said) : 0;
    sspy_position position;

    if (token)
        return token;
    position = sspy_position_of(code, lasti);
    if (make_token(code, &position, line, trust, interp, &token) && key)
        sspy_cache_put(code, key, said, token, epoch);
    return token;
}
