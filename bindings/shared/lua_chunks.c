#include "shared/lua_chunks.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

/* ---- Lines ------------------------------------------------------------------------------------*/

typedef struct span {
    const char *at, *end;
} span;

static bool is_break(char c)
{
    return c == '\n' || c == '\r';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f' || c == '\v';
}

/* Take the first line off REST; false after the last one.  In Lua a line ends with \n, \r, or both
   in any order. */
static bool take_line(span *rest, span *line)
{
    const char *at = rest->at;

    if (!at)
        return false;
    while (at < rest->end && !is_break(*at))
        at++;
    *line = (span){rest->at, at};
    if (at == rest->end)
        rest->at = NULL;
    else
        rest->at = at + (at + 1 < rest->end && is_break(at[1]) && at[1] != *at ? 2 : 1);
    return true;
}

static bool find_line(span text, int number, span *line)
{
    while (number > 0 && take_line(&text, line))
        number--;
    return number == 0;
}

int ss_lua_count_lines(const char *text, size_t length)
{
    span rest = {text, text + length}, line;
    int count = 0;

    while (count < INT_MAX && take_line(&rest, &line))
        count++;
    return count;
}

static span trimmed(span line)
{
    while (line.at < line.end && is_blank(*line.at))
        line.at++;
    while (line.at < line.end && is_blank(line.end[-1]))
        line.end--;
    return line;
}

/* A NUL in it ends the copy. */
static bool copy(span line, char *out)
{
    size_t length = strnlen(line.at, (size_t)(line.end - line.at));
    bool cut = length > SS_LUA_LINE_MAX;

    if (cut) {
        length = SS_LUA_LINE_MAX;
        while (length && ((unsigned char)line.at[length] & 0xC0) == 0x80)
            length--;
    }
    memcpy(out, line.at, length);
    memcpy(out + length, cut ? "..." : "", cut ? 4 : 1);
    return length > 0;
}

bool ss_lua_line_of(const char *text, size_t length, int line, char out[SS_LUA_LINE_ROOM])
{
    span found = {NULL, NULL};

    return find_line((span){text, text + length}, line, &found) && copy(trimmed(found), out);
}

/* ---- The text of a chunk ----------------------------------------------------------------------*/

static bool has(span line, const char *word)
{
    size_t length = strlen(word);

    for (; line.at + length <= line.end; line.at++)
        if (!memcmp(line.at, word, length))
            return true;
    return false;
}

/* Whether the function of PLACE can be one in TEXT. */
static bool can_be_in(span text, const ss_lua_chunk_place *place)
{
    span line;

    if (place->begin <= 0)
        return true;
    if (!find_line(text, place->begin, &line) || !(has(line, "function") || has(line, "(")))
        return false;
    return find_line(text, place->end, &line) && has(line, "end");
}

static bool is_of(const ss_lua_text *text, const ss_lua_chunk_place *place, span *line)
{
    span all = {text->text, text->text + text->length};

    return !strcmp(text->name, place->name) && find_line(all, place->line, line) &&
           can_be_in(all, place);
}

/* The line of the one text that can be meant; several may have equal lines there. */
static bool find_in_texts(const ss_lua_texts *texts, const ss_lua_chunk_place *place, span *found)
{
    int last = place->line > place->end ? place->line : place->end;
    const ss_lua_text *one = place->begin > 0 ? NULL : texts->running(texts);
    bool any = false;
    span line;

    if (one && is_of(one, place, found))
        return true;
    if (atomic_load(&texts->unknown) >= last)
        return false;
    for (one = atomic_load_explicit(&texts->first, memory_order_acquire); one; one = one->next) {
        if (!is_of(one, place, &line))
            continue;
        line = trimmed(line);
        if (any && (line.end - line.at != found->end - found->at ||
                    memcmp(line.at, found->at, (size_t)(line.end - line.at)) != 0))
            return false;
        *found = line;
        any = true;
    }
    return any;
}

/* A name of one line may be a mere name, and reports show it anyway. */
static bool is_text(const ss_lua_chunk_place *place)
{
    return strpbrk(place->name, "\r\n") != NULL;
}

bool ss_lua_line(const ss_lua_texts *texts, const ss_lua_chunk_place *place,
                 char out[SS_LUA_LINE_ROOM])
{
    span text = {place->name, place->name + strlen(place->name)}, line = {NULL, NULL};

    if (place->line <= 0)
        return false;
    if (texts && find_in_texts(texts, place, &line))
        return copy(line, out);
    return *place->name != '=' && *place->name != '@' && is_text(place) && can_be_in(text, place) &&
           find_line(text, place->line, &line) && copy(trimmed(line), out);
}

bool ss_lua_is_compiled_from(const char *file)
{
    static const char *const ends[] = {".fnl", ".moon", ".yue", ".ts", ".tsx"};
    const char *end = strrchr(file, '.');

    for (size_t i = 0; end && i < sizeof ends / sizeof *ends; i++)
        if (!strcmp(end, ends[i]))
            return true;
    return false;
}

/* ---- Wrong syntax -----------------------------------------------------------------------------*/

/* Behind the last occurrence of WORD, or NULL. */
static const char *behind_last(span text, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = text.end; at >= text.at + length; at--)
        if (!memcmp(at - length, word, length))
            return at;
    return NULL;
}

/* TEXT without what `require` or lupa writes before Lua's own message; the former has the name of the *FILE
   whole. */
static span without_prefix(span text, span *file)
{
    static const char module[] = "error loading module '", code[] = "error loading code: ";
    static const char behind[] = "':\n\t";
    size_t length = (size_t)(text.end - text.at);

    if (length >= sizeof code && !memcmp(text.at, code, sizeof code - 1))
        text.at += sizeof code - 1;
    else if (length >= sizeof module && !memcmp(text.at, module, sizeof module - 1))
        for (const char *at = text.at; at + sizeof behind - 1 <= text.end; at++)
            if (!memcmp(at, behind, sizeof behind - 1)) {
                file->at = behind_last((span){text.at, at}, "' from file '");
                file->end = at;
                return (span){at + sizeof behind - 1, text.end};
            }
    return text;
}

/* The colon before ":3: ", and the number; NULL without one. */
static const char *find_number(span text, int *number)
{
    for (const char *at = text.at; at < text.end; at++) {
        const char *digit = at + 1;

        *number = 0;
        while (*at == ':' && digit < text.end && *digit >= '0' && *digit <= '9' &&
               *number < INT_MAX / 10 - 1)
            *number = *number * 10 + (*digit++ - '0');
        if (*number && digit + 1 < text.end && digit[0] == ':' && digit[1] == ' ')
            return at;
    }
    return NULL;
}

static const char cut[] = "...", chunk[] = "[string \"";

static bool begins(span text, const char *word)
{
    size_t length = strlen(word);

    return (size_t)(text.end - text.at) >= length && !memcmp(text.at, word, length);
}

/* TEXT without the place of the `assert` that raised it, where a cut name or a string's follows. */
static span without_place(span text)
{
    int line;
    const char *colon = find_number(text, &line);
    span rest = {colon ? strchr(colon, ' ') + 1 : text.end, text.end};

    return begins(rest, cut) || begins(rest, chunk) ? rest : text;
}

bool ss_lua_syntax_of(const char *message, size_t length, ss_lua_syntax *out)
{
    span file = {NULL, NULL};
    span text = without_place(without_prefix((span){message, message + length}, &file));
    const char *colon = find_number(text, &out->line), *near = behind_last(text, " near ");
    size_t name = colon ? (size_t)(colon - text.at) : 0, dots = sizeof cut - 1;
    size_t word = near ? (size_t)(text.end - near) : 0;

    if (file.at && name > dots && !memcmp(text.at, cut, dots) &&
        (size_t)(file.end - file.at) >= name - dots &&
        !memcmp(file.end - (name - dots), text.at + dots, name - dots))
        name = (size_t)(file.end - file.at);
    else
        file.at = text.at;
    if (!name || name >= sizeof out->file || !near || near < colon)
        return false;
    memcpy(out->file, file.at, name);
    out->file[name] = '\0';
    out->is_file = strncmp(out->file, cut, sizeof cut - 1) != 0 &&
                   strncmp(out->file, chunk, sizeof chunk - 1) != 0;
    *out->word = '\0';
    if (word > 2 && word - 2 < sizeof out->word && *near == '\'' && text.end[-1] == '\'') {
        memcpy(out->word, near + 1, word - 2);
        out->word[word - 2] = '\0';
    }
    return true;
}

bool ss_lua_syntax_is_of(ss_lua_syntax *syntax, const char *text, size_t length,
                         char line[SS_LUA_LINE_ROOM])
{
    static const char end[] = "\"]";
    span name = {syntax->file, syntax->file + strlen(syntax->file)}, all = {text, text + length};
    size_t size = (size_t)(name.end - name.at);

    if (!begins(name, chunk)) { /* a name that begins with dots */
        size -= sizeof cut - 1;
        if (length < size || length >= sizeof syntax->file ||
            memcmp(all.end - size, name.end - size, size) != 0)
            return false;
        memcpy(syntax->file, text, length);
        syntax->file[length] = '\0';
        return syntax->is_file = true;
    }
    name.at += sizeof chunk - 1;
    name.end -= sizeof end - 1;
    size = (size_t)(name.end - name.at);
    if (size >= sizeof cut - 1 && !memcmp(name.end - (sizeof cut - 1), cut, sizeof cut - 1))
        size -= sizeof cut - 1;
    else if (size != length)
        return false;
    return size <= length && !memcmp(text, name.at, size) &&
           ss_lua_line_of(text, length, syntax->line, line) && strstr(line, syntax->word);
}
