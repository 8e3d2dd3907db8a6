/*
 * What is known of the text of Lua's chunks: lines of those that have no file, and the place that a
 * message about wrong syntax names.  Nothing here allocates, and nothing reads a file.
 */
#ifndef SS_SHARED_LUA_CHUNKS_H
#define SS_SHARED_LUA_CHUNKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    SS_LUA_LINE_MAX = 500,
    SS_LUA_LINE_ROOM = SS_LUA_LINE_MAX + 4,
    SS_LUA_WORD_MAX = 60,
    SS_LUA_CHUNK_MAX = 256
};

/* ---- Texts that a program has compiled --------------------------------------------------------*/

typedef struct ss_lua_text {
    const struct ss_lua_text *next;
    const char *name, *text;
    size_t length; /* of the text */
} ss_lua_text;

/* The texts of one state.  The program adds to them before it compiles one; none is ever taken
   away while captures can run. */
typedef struct ss_lua_texts {
    _Atomic(const ss_lua_text *) first;
    atomic_int unknown; /* lines of the longest chunk whose text is not here */
    /* The text of the one chunk that this thread runs as a whole, not a function of it; NULL if there
       are others, or may be. */
    const ss_lua_text *(*running)(const struct ss_lua_texts *texts);
} ss_lua_texts;

/* A place in a chunk, as lua_getinfo tells it. */
typedef struct ss_lua_chunk_place {
    const char *name;     /* "source" */
    int line, begin, end; /* the line, and those of its function; BEGIN 0: it is the whole chunk */
} ss_lua_chunk_place;

/*
 * Copy the line of PLACE without white space around it to OUT, where it ends with a NUL.  A longer one
 * ends in dots.  The text is the chunk's name where Lua made that of it, or among TEXTS, which may
 * be NULL.  False if it is not certain that this was the text.  Signal safe.
 */
bool ss_lua_line(const ss_lua_texts *texts, const ss_lua_chunk_place *place,
                 char out[SS_LUA_LINE_ROOM]);

/* How many lines TEXT has, as Lua counts them. */
int ss_lua_count_lines(const char *text, size_t length);

/* Line LINE of TEXT, as ss_lua_line. */
bool ss_lua_line_of(const char *text, size_t length, int line, char out[SS_LUA_LINE_ROOM]);

/*
 * Whether FILE, of a chunk that is named after it, has a language that is compiled to Lua.  Then the chunk's
 * lines are most often those of the Lua code, which no file has: Fennel, MoonScript, YueScript,
 * TypeScriptToLua.  Teal keeps its lines.
 */
bool ss_lua_is_compiled_from(const char *file);

/* ---- Wrong syntax -----------------------------------------------------------------------------*/

/* Where a chunk could not be compiled. */
typedef struct ss_lua_syntax {
    char file[SS_LUA_CHUNK_MAX]; /* as messages show it */
    bool is_file;                /* FILE is the whole name of a file */
    int line;
    char word[SS_LUA_WORD_MAX]; /* the words that could not be understood, "" if not known */
} ss_lua_syntax;

/*
 * Read MESSAGE, "bad.lua:3: ')' expected near 'return'", maybe with the words of `require` or of
 * lupa in front of it, or the place of an `assert`.  False if it is not of that form.  A script can
 * raise such a text, too.
 */
bool ss_lua_syntax_of(const char *message, size_t length, ss_lua_syntax *out);

/*
 * Whether TEXT, a string of the program, explains SYNTAX: as the text of the chunk, of which the line goes
 * to LINE, or as the name of the file, of which SYNTAX then has as much as fits.
 */
bool ss_lua_syntax_is_of(ss_lua_syntax *syntax, const char *text, size_t length,
                         char line[SS_LUA_LINE_ROOM]);

#endif
