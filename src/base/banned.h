/* banned.h — calls that this project does not use, as compile errors. Included last by base.h. */
#ifndef QNI_BANNED_H
#define QNI_BANNED_H

#if defined(__GNUC__)
#pragma GCC poison strcpy strcat sprintf vsprintf gets strtok atoi atol atoll atof
#pragma GCC poison gmtime localtime ctime asctime setlocale mktemp tmpnam rand srand
#endif

#endif
