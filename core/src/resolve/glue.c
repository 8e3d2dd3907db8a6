#include "base/alloc.h"
#include "resolve/resolve.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ADDED = 32,
    MOST_HIDDEN = 256,
    LONGEST_HIDDEN = 1023,
    MOST_OF_ENVIRONMENT = 64,
    MOST_BYTES_OF_ENVIRONMENT = 4096
};

static _Atomic(const stacksplice_glue *) added[MOST_ADDED]; /* (ATOMIC) set once, in order */

static const char *const own_binaries[] = {
    "_stacksplice.*",
    "stacksplice.so*",
    "libstacksplice*", /* our borders and the core */
    "libffi.so*",      /* calls made at run time */
    NULL,
};

static const char *const own_functions[] = {
    "stacksplice_*",  "RoOriginate*", "ffi_call*", "std::function<*", "std::_Function_handler<*",
    "std::__invoke*", NULL,
};

/* From the C library and the linker: the frames below main or a thread's function. */
static const char *const start_up[] = {
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "start_thread",
    "clone3",
    "__clone3",
    "__GI___clone3",
    NULL,
};

static const stacksplice_glue own_glue = {.size = sizeof own_glue,
                                          .language = "native",
                                          .functions = own_functions,
                                          .binaries = own_binaries};

/* ---- Patterns --------------------------------------------------------------------------------*/

static bool matches(const char *name, const char *pattern)
{
    for (;; name++, pattern++) {
        switch (*pattern) {
        case '*':
            return true;
        case '#': /* a version, or nothing */
            return !*name || strchr(".-0123456789", *name);
        case '\0':
            return !*name || *name == '.' || *name == '@'; /* a part, a version of the symbol */
        case '^':
            if (*name < 'A' || *name > 'Z')
                return false;
            break;
        default:
            if (*name != *pattern)
                return false;
        }
    }
}

bool ss_glue_matches(const char *name, const char *const *patterns)
{
    for (; patterns && *patterns; patterns++) {
        if (matches(name, *patterns))
            return true;
    }
    return false;
}

/* ---- What is known ---------------------------------------------------------------------------*/

stacksplice_hresult stacksplice_add_glue(const stacksplice_glue *glue)
{
    if (!glue || !glue->language)
        return E_POINTER;
    if (glue->size != sizeof *glue)
        return E_INVALIDARG;
    for (size_t i = 0; i < MOST_ADDED; i++) {
        const stacksplice_glue *there = NULL;

        if (atomic_compare_exchange_strong(&added[i], &there, glue))
            return S_OK;
        if (there == glue)
            return S_FALSE;
    }
    return E_OUTOFMEMORY;
}

const stacksplice_glue *ss_glue_at(uint32_t index)
{
    uint32_t known = 0;

    if (index == 0)
        return &own_glue;
    index--;
    while (ss_known_glue[known] && known < index)
        known++;
    if (ss_known_glue[known])
        return ss_known_glue[known];
    return index - known < MOST_ADDED ? atomic_load(&added[index - known]) : NULL;
}

static uint32_t count_hidden(void);

uint32_t ss_glue_added(void)
{
    uint32_t count = 0;

    while (count < MOST_ADDED && atomic_load_explicit(&added[count], memory_order_acquire))
        count++;
    return count + count_hidden();
}

const stacksplice_glue *ss_glue_of(const char *language)
{
    const stacksplice_glue *glue;

    for (size_t i = 0; (glue = ss_known_glue[i]) != NULL; i++)
        if (!strcmp(glue->language, language))
            return glue;
    for (size_t i = 0; i < MOST_ADDED && (glue = atomic_load(&added[i])) != NULL; i++)
        if (!strcmp(glue->language, language))
            return glue;
    return NULL;
}

/* ---- Frames ----------------------------------------------------------------------------------*/

/* Where the name begins in a C++ function as demanglers write it, behind a type of its result. */
static const char *qualified_name(const char *function)
{
    const char *begin = function;
    int depth = 0;

    for (const char *at = function; *at && (depth || *at != '('); at++) {
        if (*at == '<' || *at == '{')
            depth++;
        else if (*at == '>' || *at == '}')
            depth--;
        else if (*at == ' ' && !depth)
            begin = at + 1;
    }
    return begin;
}

/* Whether it has a namespace or a class before its own name. */
static bool is_qualified(const char *function)
{
    static const char nameless[] = "(anonymous namespace)::";
    const char *name = qualified_name(function);

    return !strncmp(name, nameless, sizeof nameless - 1) || name[strcspn(name, ":<(")] == ':';
}

/*
 * Whether it is from the C++ headers of this library.  A whole name decides.  Without a namespace, as
 * inlined functions are, the file does; that of a function with a whole name may be of what was inlined
 * into it, where debug information does not tell them apart.
 */
static bool is_of_headers(const stacksplice_frame *frame)
{
    static const char own[] = "stacksplice::", folder[] = "/include/stacksplice/";
    const char *end = frame->file ? strrchr(frame->file, '.') : NULL;

    if (frame->function && !strncmp(qualified_name(frame->function), own, sizeof own - 1))
        return true;
    if (frame->function && !frame->inlined && is_qualified(frame->function))
        return false;
    return end && !strcmp(end, ".hpp") && strstr(frame->file, folder);
}

static bool is_of_source(const stacksplice_glue *glue, const char *file)
{
    for (const char *const *part = glue->sources; part && *part; part++)
        if (file && strstr(file, *part))
            return true;
    return false;
}

static bool is_binary(const stacksplice_glue *glue, const char *path)
{
    for (const char *const *part = glue->binaries; part && *part; part++)
        if (**part == '/' && strstr(path, *part))
            return true;
    return ss_glue_matches(ss_base_name(path), glue->binaries);
}

static stacksplice_role role_by(const stacksplice_glue *glue, const char *function,
                                const char *module)
{
    if (function &&
        (ss_glue_matches(function, glue->functions) || ss_glue_matches(function, glue->entries)))
        return STACKSPLICE_ROLE_GLUE;
    if (!module)
        return STACKSPLICE_ROLE_OWN;
    if (is_binary(glue, module))
        return STACKSPLICE_ROLE_GLUE;
    if (!ss_glue_matches(ss_base_name(module), glue->libraries))
        return STACKSPLICE_ROLE_OWN;
    return STACKSPLICE_ROLE_BUILTIN;
}

bool ss_glue_is_start_up(const char *symbol)
{
    return ss_glue_matches(symbol, start_up);
}

bool ss_gap_is_quiet(const stacksplice_frame *gap)
{
    const stacksplice_glue *known = ss_glue_of(gap->language);

    for (size_t i = 0; known && known->quiet && gap->reason && known->quiet[i]; i++) {
        if (!strcmp(gap->reason, known->quiet[i]))
            return true;
    }
    return false;
}

/* A name from scripts takes precedence: such a function is not glue by its name in the binary. */
static stacksplice_role role_of(const stacksplice_frame *frame, bool script_named)
{
    const char *function =
        script_named || !frame->function ? NULL : qualified_name(frame->function);
    stacksplice_role role = STACKSPLICE_ROLE_OWN;
    const stacksplice_glue *glue;

    if (frame->kind == STACKSPLICE_FRAME_GAP)
        return ss_gap_is_quiet(frame) ? STACKSPLICE_ROLE_GLUE : role;
    if (frame->kind != STACKSPLICE_FRAME_NATIVE)
        return role;
    if (frame->inlined == SS_INLINED_INSIDE || is_of_headers(frame) ||
        (function && ss_glue_is_start_up(function)))
        return STACKSPLICE_ROLE_GLUE;
    for (uint32_t i = 0; role != STACKSPLICE_ROLE_GLUE && (glue = ss_glue_at(i)) != NULL; i++) {
        stacksplice_role here = is_of_source(glue, frame->file)
                                    ? STACKSPLICE_ROLE_GLUE
                                    : role_by(glue, function, frame->module);

        if (here != STACKSPLICE_ROLE_OWN)
            role = here;
    }
    if (role == STACKSPLICE_ROLE_BUILTIN && !frame->function)
        role = STACKSPLICE_ROLE_GLUE;
    return role;
}

bool ss_glue_is_inside(const char *function)
{
    const stacksplice_glue *glue;

    for (uint32_t i = 1; (glue = ss_glue_at(i)) != NULL; i++) {
        if (ss_glue_matches(function, glue->functions) || ss_glue_matches(function, glue->entries))
            return true;
    }
    return false;
}

bool ss_glue_is_binary(const char *path)
{
    const stacksplice_glue *glue;

    for (uint32_t i = 0; (glue = ss_glue_at(i)) != NULL; i++) {
        if (is_binary(glue, path))
            return true;
    }
    return false;
}

/* ---- Shells ----------------------------------------------------------------------------------*/

/* Behind PART, with which PATH begins and in which '*' stands for the rest of a name; or NULL. */
static const char *behind(const char *path, const char *part)
{
    for (; *part; part++) {
        if (*part == '*')
            path += strcspn(path, "/");
        else if (*path++ != *part)
            return NULL;
    }
    return path;
}

/* Behind the first PART of PATH, which may be NULL; or NULL. */
static const char *behind_part(const char *path, const char *part)
{
    while (path && *path && !behind(path, part))
        path = *part == '*' ? path + 1 : strchr(path + 1, *part);
    return path && *path ? behind(path, part) : NULL;
}

static bool has_part(const char *path, const char *part)
{
    return behind_part(path, part) != NULL;
}

bool ss_ends_with(const char *text, const char *end)
{
    size_t length, most = strlen(end);

    if (!text)
        return false;
    length = strlen(text);
    return length >= most && !strcmp(text + length - most, end);
}

static const stacksplice_shell *hidden_of(const stacksplice_frame *frame);

static bool is_of_shell(const stacksplice_frame *frame, const stacksplice_shell *shell)
{
    if (frame->kind == STACKSPLICE_FRAME_NATIVE)
        return !shell->function && has_part(frame->module, shell->file);
    return (!shell->function || ss_ends_with(frame->function, shell->function)) &&
           has_part(frame->file, shell->file);
}

static const stacksplice_shell *shell_among(const stacksplice_glue *glue,
                                            const stacksplice_frame *frame)
{
    const stacksplice_shell *s = glue ? glue->shells : NULL;

    while (s && s->name && !is_of_shell(frame, s))
        s++;
    return s && s->name ? s : NULL;
}

const stacksplice_shell *ss_shell_of(const stacksplice_frame *frame)
{
    const stacksplice_shell *found = NULL;
    const stacksplice_glue *glue;

    if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        found = shell_among(ss_glue_of(frame->language), frame);
    else
        for (uint32_t i = 0; !found && (glue = ss_glue_at(i)) != NULL; i++)
            found = shell_among(glue, frame);
    return found ? found : hidden_of(frame);
}

/* ---- Libraries ---------------------------------------------------------------------------------*/

static const char *path_of(const stacksplice_frame *frame)
{
    return frame->kind == STACKSPLICE_FRAME_NATIVE ? frame->module : frame->file;
}

/* Whether the path BEHIND a folder of libraries begins with NAME, in which dots are between folders. */
static bool is_named(const char *behind, const char *name)
{
    for (; *name; name++, behind++)
        if (*behind != (*name == '.' ? '/' : *name))
            return false;
    return *behind == '/' || *behind == '.';
}

/* Whether FRAME is of a library, of NAME if that is not NULL, in a folder that GLUE knows. */
static bool is_in_packages(const stacksplice_glue *glue, const stacksplice_frame *frame,
                           const char *name)
{
    for (const char *const *part = glue->packages; part && *part; part++) {
        const char *at = behind_part(path_of(frame), *part);

        for (; at; at = behind_part(at - 1, *part)) /* folders share the '/' between them */
            if (!name || is_named(at, name))
                return true;
    }
    return false;
}

static bool is_of_library(const stacksplice_frame *frame, const char *name)
{
    const stacksplice_glue *glue;

    for (uint32_t i = 0; (glue = ss_glue_at(i)) != NULL; i++)
        if (is_in_packages(glue, frame, name))
            return true;
    return false;
}

int stacksplice_frame_installed(const stacksplice_frame *frame)
{
    const char *path = frame ? path_of(frame) : NULL;

    if (!path || frame->kind == STACKSPLICE_FRAME_GAP || frame->chunk)
        return 0;
    return !strncmp(path, "/usr/lib", 8) || !strncmp(path, "/lib", 4) || is_of_library(frame, NULL);
}

/* ---- What users hide ---------------------------------------------------------------------------*/

/* A shell that a user named: without a file it is a library. */
typedef struct hidden {
    stacksplice_shell shell;
    char texts[];
} hidden;

static _Atomic(const hidden *) all_hidden[MOST_HIDDEN]; /* (ATOMIC) set once, in order */

static const hidden *hidden_at(uint32_t index)
{
    return index < MOST_HIDDEN ? atomic_load_explicit(&all_hidden[index], memory_order_acquire)
                               : NULL;
}

static uint32_t count_hidden(void)
{
    uint32_t count = 0;

    while (hidden_at(count))
        count++;
    return count;
}

/* Whether FRAME is in a file or a binary with PART in its path; one that begins with '/' may begin it. */
static bool is_in(const stacksplice_frame *frame, const char *part)
{
    const char *paths[] = {frame->file,
                           frame->kind == STACKSPLICE_FRAME_NATIVE ? frame->module : NULL};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (has_part(paths[i], part) || (paths[i] && *part == '/' && behind(paths[i], part + 1)))
            return true;
    return false;
}

static const stacksplice_shell *hidden_of(const stacksplice_frame *frame)
{
    const hidden *each;

    if (frame->kind == STACKSPLICE_FRAME_GAP)
        return NULL;
    for (uint32_t i = 0; (each = hidden_at(i)) != NULL; i++)
        if (each->shell.file ? is_in(frame, each->shell.file)
                             : is_of_library(frame, each->shell.name))
            return &each->shell;
    return NULL;
}

static bool is_same_hidden(const hidden *a, const hidden *b)
{
    if (strcmp(a->shell.name, b->shell.name) != 0 || !a->shell.file != !b->shell.file)
        return false;
    return !a->shell.file || !strcmp(a->shell.file, b->shell.file);
}

/* Put MADE at the end of the list; S_FALSE if it is in it already. */
static stacksplice_hresult put_hidden(const hidden *made)
{
    for (size_t i = 0; i < MOST_HIDDEN; i++) {
        const hidden *there = NULL;

        if (atomic_compare_exchange_strong(&all_hidden[i], &there, made))
            return S_OK;
        if (is_same_hidden(there, made))
            return S_FALSE;
    }
    return E_OUTOFMEMORY;
}

stacksplice_hresult stacksplice_hide(const char *name, const char *file)
{
    size_t name_length, file_length;
    stacksplice_hresult hr;
    hidden *made;

    if (!name)
        return E_POINTER;
    name_length = strnlen(name, LONGEST_HIDDEN + 1);
    file_length = file ? strnlen(file, LONGEST_HIDDEN + 1) : 0;
    if (!name_length || name_length > LONGEST_HIDDEN || (file && !file_length) ||
        file_length > LONGEST_HIDDEN || (!file && strchr(name, '/')))
        return E_INVALIDARG;
    made = ss_alloc(1, sizeof *made + name_length + 1 + file_length + 1);
    if (!made)
        return E_OUTOFMEMORY;
    made->shell.name = memcpy(made->texts, name, name_length);
    if (file)
        made->shell.file = memcpy(made->texts + name_length + 1, file, file_length);
    hr = put_hidden(made);
    if (hr != S_OK)
        ss_free(made);
    return hr;
}

/* STACKSPLICE_HIDE: libraries, and parts of paths, which have a '/', with ':' between them.  It allocates
   nothing: a host may still set an allocator. */
__attribute__((constructor)) static void hide_by_environment(void)
{
    static char texts[MOST_BYTES_OF_ENVIRONMENT];
    static hidden all[MOST_OF_ENVIRONMENT];
    const char *given = secure_getenv("STACKSPLICE_HIDE");
    size_t length = given ? strlen(given) : 0, count = 0;
    char *rest = texts, *one;

    if (!length || length >= sizeof texts)
        return;
    memcpy(texts, given, length);
    while ((one = strsep(&rest, ":")) != NULL && count < MOST_OF_ENVIRONMENT)
        if (*one) {
            all[count].shell = (stacksplice_shell){one, strchr(one, '/') ? one : NULL, NULL};
            (void)put_hidden(&all[count++]);
        }
}

/* ---- What is kept of a frame ------------------------------------------------------------------*/

void ss_frame_judge(ss_frame *f)
{
    f->role = role_of(&f->frame, f->script_named);
    f->shell = ss_shell_of(&f->frame);
    f->is_judged = true;
}

bool ss_glue_is(const ss_frame *f)
{
    stacksplice_role role = f->is_judged ? f->role : role_of(&f->frame, f->script_named);

    return role == STACKSPLICE_ROLE_GLUE;
}

const stacksplice_shell *ss_frame_shell(const ss_frame *f)
{
    return f->is_judged ? f->shell : ss_shell_of(&f->frame);
}

stacksplice_role stacksplice_frame_role(const stacksplice_frame *frame)
{
    return frame ? role_of(frame, false) : STACKSPLICE_ROLE_OWN;
}
