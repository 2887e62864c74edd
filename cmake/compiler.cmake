# One set of flags for every target, on gcc and clang.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()
# -O3 for the kernels; asserts are for our own bugs and are off in release builds.
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")

add_library(quench_flags INTERFACE)
target_compile_features(quench_flags INTERFACE c_std_17)
target_compile_definitions(quench_flags INTERFACE _XOPEN_SOURCE=700 _FILE_OFFSET_BITS=64)
target_compile_options(quench_flags INTERFACE
    # gcc drops contraction only under -std=c17, clang contracts by default: spelled out, since
    # the bytes of every encoder depend on it.
    -ffp-contract=off
    -fno-strict-aliasing
    -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wvla -Walloca -Wcast-qual
    -Wstrict-prototypes -Wmissing-prototypes -Wdouble-promotion -Wformat=2 -Wwrite-strings
    -Wimplicit-fallthrough)
# Not -Wnull-dereference: gcc 12 at -O3 reports pointers that a checked status has made non-NULL.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    # s390x under -std=c17 would compute floats in double; src/kernels checks that nobody does.
    target_compile_options(quench_flags INTERFACE -fexcess-precision=fast)
endif()
if(QN_WERROR)
    target_compile_options(quench_flags INTERFACE -Werror)
endif()
if(QN_SANITIZE)
    target_compile_options(quench_flags INTERFACE -fsanitize=${QN_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=all)
    target_link_options(quench_flags INTERFACE -fsanitize=${QN_SANITIZE})
endif()
if(QN_COVERAGE)
    target_compile_options(quench_flags INTERFACE --coverage -fprofile-update=atomic)
    target_link_options(quench_flags INTERFACE --coverage)
endif()
