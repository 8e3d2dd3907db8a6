/* Loaded before the core: counts how often a token of Python is made from the content of its frame.
 */
#include <dlfcn.h>
#include <string.h>

#include <stacksplice/source.h>

typedef stacksplice_hresult intern_function(const stacksplice_token_info *, uintptr_t *);

unsigned python_tokens_made;

stacksplice_hresult stacksplice_intern(const stacksplice_token_info *info, uintptr_t *token)
{
    void *core = dlopen("libstacksplice.so.0", RTLD_NOW | RTLD_NOLOAD);
    intern_function *real = (intern_function *)dlsym(core, "stacksplice_intern");

    python_tokens_made +=
        info->kind == STACKSPLICE_FRAME_SCRIPT && !strcmp(info->language, "python");
    return real(info, token);
}
