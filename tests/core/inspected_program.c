/*
 * A C program that inspect_test.py looks at from outside.  Two threads have an error each; a line
 * for each says its thread, its HRESULT and the stack, as the functions for debuggers give them.
 * Then it does what its argument says: "wait" for the end of standard input, "abort", "failfast",
 * "alone" fail fast without any error, or "busy": change all of it, all the time, until standard
 * input ends.
 */
#include <stacksplice/crash.h>
#include <stacksplice/debugger.h>
#include <stacksplice/script.h>
#include <stacksplice/winrt/roerrorapi.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in debug information: a file can have the mark of a Lua where none runs. */
__asm__(".pushsection .not_mapped,\"\"\n.ascii \"$LuaVersion: Lua 5.9 \"\n.popsection");

static HRESULT read_here(void *context, UINT_PTR address, UINT32 length, BYTE *buffer)
{
    (void)context;
    memcpy(buffer, (const void *)address, length);
    return S_OK;
}

static void print_own(void)
{
    UINT_PTR anchor = (UINT_PTR)stacksplice_thread_anchor(), error = 0, stack = 0;
    UINT32 count = 0;

    if (RoInspectThreadErrorInfo(anchor, IMAGE_FILE_MACHINE_AMD64, read_here, NULL, &error) ||
        RoInspectCapturedStackBackTrace(error, IMAGE_FILE_MACHINE_AMD64, read_here, NULL, &count,
                                        &stack))
        abort();
    printf("%ld", syscall(SYS_gettid));
    for (UINT32 i = 0; i < count; i++)
        printf(" 0x%" PRIxPTR, ((const uintptr_t *)stack)[i]);
    printf("\n");
    fflush(stdout);
}

/* ---- Errors ----------------------------------------------------------------------------------*/

static void drop(void *context, void *data, void *value)
{
    (void)context, (void)data, (void)value;
}

static const stacksplice_language toy = {.size = sizeof toy, .name = "toy", .drop = drop};

/* A stack with a frame of a script between native ones. */
static uint32_t script_stack(uintptr_t frames[16])
{
    const stacksplice_token_info info = {.size = sizeof info,
                                         .kind = STACKSPLICE_FRAME_SCRIPT,
                                         .trust = STACKSPLICE_TRUST_EXACT,
                                         .language = "toy",
                                         .function = "a long name that needs more than one cell, "
                                                     "which has room for about a hundred bytes",
                                         .file = "/toys/script.toy",
                                         .line = 12,
                                         .column = 3,
                                         .interpreter = "toy 2"};
    uint32_t count = 0;

    (void)stacksplice_capture(0, 14, frames, &count, NULL);
    if (stacksplice_intern(&info, &frames[count]) != S_OK)
        abort();
    frames[count + 1] = stacksplice_left_out(5);
    return count + 2;
}

static void originate_toy(stacksplice_owner *owner)
{
    static const char *const types[] = {"KeyError", "LookupError"};
    const stacksplice_document_text notes[] = {{"first note", 10}, {"second", 6}};
    uintptr_t frames[16];
    const stacksplice_exception_parts parts = {.size = sizeof parts,
                                               .hresult = E_BOUNDS,
                                               .types = types,
                                               .type_count = 2,
                                               .message = "password=hunter2",
                                               .message_length = 16,
                                               .frames = frames,
                                               .frame_count = script_stack(frames),
                                               .notes = notes,
                                               .note_count = 2};
    stacksplice_exception *x = stacksplice_exception_new(owner, &parts);
    IUnknown *object;

    if (!x)
        abort();
    object = stacksplice_exception_unknown(x);
    object->lpVtbl->AddRef(object);
    RoOriginateLanguageException(E_BOUNDS, NULL, object);
    (void)stacksplice_propagate(E_BOUNDS, NULL);
    object->lpVtbl->Release(object);
    stacksplice_exception_unref(x);
}

static void originate_transformed(void)
{
    IRestrictedErrorInfo *error = NULL;

    RoOriginateErrorW(E_FAIL, 0, u"first \u00e4 \U0001f511");
    RoTransformErrorW(E_FAIL, E_ABORT, 0, u"second");
    if (stacksplice_peek_error(&error) != S_OK)
        abort();
    (void)stacksplice_add_note((IUnknown *)(void *)error, "added", 5);
    error->lpVtbl->Release(error);
}

/* ---- Threads ---------------------------------------------------------------------------------*/

static pthread_barrier_t told;

static void *hold_toy(void *unused)
{
    stacksplice_owner *owner = stacksplice_owner_new(&toy, &told);
    stacksplice_owner *ended = stacksplice_owner_new(&toy, &told);

    (void)unused;
    stacksplice_owner_show(owner, &told, "1.2");
    stacksplice_owner_show(ended, &ended, "1.3");
    stacksplice_owner_close(ended);
    originate_toy(owner);
    print_own();
    pthread_barrier_wait(&told);
    pause();
    return NULL;
}

static atomic_bool ends;

static void *work(void *owner)
{
    for (int i = 0; i < 50; i++) {
        originate_toy(owner);
        originate_transformed();
        for (int n = i % 8; n; n--)
            (void)stacksplice_propagate(E_ABORT, NULL);
        RoClearError();
    }
    originate_toy(owner);
    return NULL;
}

static void *work_on(void *owner)
{
    pthread_t inner;

    while (!atomic_load(&ends)) {
        originate_transformed();
        if (pthread_create(&inner, NULL, work, owner) == 0)
            (void)pthread_join(inner, NULL);
    }
    return NULL;
}

static void be_busy(void)
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work_on, stacksplice_owner_new(&toy, &told));
    printf("busy\n");
    fflush(stdout);
    (void)getchar();
    atomic_store(&ends, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    pthread_t other;

    if (!strcmp(what, "busy")) {
        be_busy();
        return 0;
    }
    if (!strcmp(what, "alone"))
        RoFailFastWithErrorContext(E_OUTOFMEMORY);
    pthread_barrier_init(&told, NULL, 2);
    pthread_create(&other, NULL, hold_toy, NULL);
    pthread_barrier_wait(&told);
    originate_transformed();
    print_own();
    if (!strcmp(what, "abort"))
        abort();
    if (!strcmp(what, "failfast"))
        RoFailFastWithErrorContext(E_ABORT);
    (void)getchar();
    return 0;
}
