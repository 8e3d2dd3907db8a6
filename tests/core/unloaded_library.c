/* A plugin: what it calls has a frame of it on the stack. */
__attribute__((visibility("default"))) int plugin_entry(int (*f)(void *), void *data);

__attribute__((noinline)) static int PLUGIN_CALL(int (*f)(void *), void *data)
{
    return f(data) + 1;
}

int plugin_entry(int (*f)(void *), void *data)
{
    return PLUGIN_CALL(f, data) + 1;
}
