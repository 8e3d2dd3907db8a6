#include "plan_support.h"

volatile unsigned one = 1;

/* ---- The source -------------------------------------------------------------------------------*/

_Thread_local script_state script;
node nodes[2];

static int guard_holds(const uintptr_t *data)
{
    return script.guarded == (int)data[0] && data[1] == 11 && data[3] == 13;
}

static void push(stacksplice_walk *walk, const node *at)
{
    if (!script.forgets_tokens)
        stacksplice_walk_read(walk, (uintptr_t)&at->token, at->token);
    (void)stacksplice_walk_push(walk, at->token);
}

static void collect(stacksplice_walk *walk, void *data)
{
    const uintptr_t check[STACKSPLICE_CHECK_WORDS] = {(uintptr_t)script.guarded, 11, 12, 13};

    (void)data;
    script.asked++;
    script.reports += walk->recorded;
    if (script.refuses)
        stacksplice_walk_refuse(walk);
    if (script.guarded)
        stacksplice_walk_check(walk, guard_holds, check);
    stacksplice_walk_read(walk, (uintptr_t)&script.head, (uintptr_t)script.head);
    if (!script.head || !stacksplice_walk_splice(walk, 0, 0))
        return;
    for (const node *at = script.head; at; at = at->next) {
        stacksplice_walk_read(walk, (uintptr_t)&at->next, (uintptr_t)at->next);
        push(walk, at);
    }
}

static const stacksplice_source source = {SOURCE, .language = "test", .identity = &source,
                                          .collect = collect, .reports = 1};

uintptr_t script_token(const char *function)
{
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "test", .function = function};
    uintptr_t token;

    return stacksplice_intern(&info, &token) == S_OK ? token : 0;
}

int set_up(void **state)
{
    static bool is_added;

    (void)state;
    if (!is_added)
        assert_int_equal(stacksplice_add_source(&source), S_OK);
    is_added = true;
    nodes[0] = (node){&nodes[1], script_token("a")};
    nodes[1] = (node){NULL, script_token("b")};
    script.head = nodes;
    script.refuses = script.forgets_tokens = false;
    script.guarded = 0;
    return 0;
}

void change_token(void)
{
    nodes[1].token = script_token("c");
}

/* ---- Captures ---------------------------------------------------------------------------------*/

ONE_PLACE unsigned capture_times(stack *s, unsigned times)
{
    script.asked = 0;
    for (unsigned i = 0; i < times; i += one)
        s->hr = stacksplice_capture(0, MAX, s->frames, &s->count, &s->hash);
    return script.asked;
}

ONE_PLACE bool asks_after(void (*change)(void), stack *before, stack *after)
{
    static const unsigned times[] = {ENOUGH, 1};
    stack *const stacks[] = {before, after};
    unsigned askings[2];

    for (volatile unsigned step = 0; step < 2; step += one) {
        askings[step] = capture_times(stacks[step], times[step]);
        if (step == 0 && change)
            change();
    }
    if (askings[0] == ENOUGH)
        fail_msg("no plan was made");
    return askings[1] == 1;
}

void check_equal(const stack *a, const stack *b)
{
    assert_int_equal(a->hr, b->hr);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->hash, b->hash);
    assert_memory_equal(a->frames, b->frames, a->count * sizeof *a->frames);
}
