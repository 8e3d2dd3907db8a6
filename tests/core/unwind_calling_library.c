/* Calls the program that opens it, while it is being opened. */
void callback_of_library(void);

static __attribute__((constructor)) void call(void)
{
    callback_of_library();
}
