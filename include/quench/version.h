/* version.h — the one place that holds the version; the build takes its number from here. */
#ifndef QUENCH_VERSION_H
#define QUENCH_VERSION_H

#define QN_VERSION_MAJOR  0
#define QN_VERSION_MINOR  1
#define QN_VERSION_PATCH  0
#define QN_VERSION_STRING "0.1.0"

#endif
