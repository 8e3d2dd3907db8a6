/* What the copies of Lua in one process share while they call each other. */
#ifndef TESTS_LUA_COPIES_H
#define TESTS_LUA_COPIES_H

enum { COPIES_LINES = 64, COPIES_HOPS = 16 };

typedef struct copies copies;
typedef void (*copies_enter)(copies *all);

struct copies {
    copies_enter order[COPIES_HOPS]; /* who is entered, outermost first; NULL: the end */
    int at;
    char lines[COPIES_LINES][200]; /* what each copy's own lua_getinfo says, outermost first */
    int line_count;
    void (*check)(copies *all);
};

#endif
