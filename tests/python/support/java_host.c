/*
 * java_host LIBJVM CLASSPATH ORDER HOW: starts Java "before" or "after" the crash handler, or after
 * it "others_first", and runs Faults; HOW "crash": which crashes in C at the end.
 */
#include <jni.h>

#include <stacksplice/crash.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef jint (*create_vm)(JavaVM **vm, void **env, void *arguments);

static void install(uint32_t others_first)
{
    const stacksplice_crash_options options = {sizeof options, NULL, 0, others_first};

    (void)stacksplice_install_crash_handler(&options);
}

static __attribute__((noinline)) void JNICALL crash(JNIEnv *env, jclass class)
{
    int *volatile nowhere = (int *)8;

    *nowhere = 1;
}

static JNIEnv *start_java(const char *library, const char *classes)
{
    char path[4096];
    JavaVMOption options[] = {{path, NULL}, {"-Xmx64m", NULL}};
    JavaVMInitArgs arguments = {JNI_VERSION_1_8, 2, options, JNI_FALSE};
    void *opened = dlopen(library, RTLD_NOW);
    create_vm create = opened ? (create_vm)dlsym(opened, "JNI_CreateJavaVM") : NULL;
    JavaVM *vm;
    void *env;

    (void)snprintf(path, sizeof path, "-Djava.class.path=%s", classes);
    return create && create(&vm, &env, &arguments) == JNI_OK ? env : NULL;
}

int main(int count, char **arguments)
{
    JNINativeMethod method = {"crash", "()V", (void *)crash};
    const char *order = arguments[3];
    jclass faults;
    JNIEnv *env;

    if (count != 5)
        return 2;
    if (!strcmp(order, "after"))
        install(0);
    env = start_java(arguments[1], arguments[2]);
    if (!env)
        return 3;
    if (strcmp(order, "after"))
        install(!strcmp(order, "others_first"));
    faults = (*env)->FindClass(env, "Faults");
    (*env)->RegisterNatives(env, faults, &method, 1);
    (*env)->CallStaticVoidMethod(env, faults, (*env)->GetStaticMethodID(env, faults, "run", "(Z)V"),
                                 !strcmp(arguments[4], "crash"));
    if ((*env)->ExceptionCheck(env))
        (*env)->ExceptionDescribe(env);
    puts("end");
    return 0;
}
