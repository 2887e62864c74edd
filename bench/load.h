/* load.h - load a provider given as "path/to/provider.so[=argument]" */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H
#include "common.h"
#include "provider.h"
#include <dlfcn.h>
static inline const bench_provider *load_provider(const char *spec)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", spec);
    char *arg = strchr(path, '=');
    if (arg)
        *arg++ = 0;
    void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!h) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    bench_provider_get_fn f = (bench_provider_get_fn)(uintptr_t)dlsym(h, "bench_provider_get");
    if (!f) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    const bench_provider *p = f(arg);
    if (!p) {
        fprintf(stderr, "provider %s: no library\n", spec);
        exit(1);
    }
    return p;
}
#endif
