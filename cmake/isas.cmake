# Flags of the files that hold one instruction set, by their suffix: src/kernels/x86/*_avx2.c and
# so on. Baseline files get none: they run on any CPU of the architecture.
set(QN_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2)
set(QN_ISA_FLAGS_avx_vnni ${QN_ISA_FLAGS_avx2} -mavxvnni)
set(QN_ISA_FLAGS_avx512 ${QN_ISA_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
    -mprefer-vector-width=512)
set(QN_ISA_FLAGS_avx512_vnni ${QN_ISA_FLAGS_avx512} -mavx512vbmi -mavx512vnni)
set(QN_ISA_FLAGS_avx512_bf16 ${QN_ISA_FLAGS_avx512_vnni} -mavx512bf16)
set(QN_ISA_FLAGS_neon "")
set(QN_ISA_FLAGS_neon_dotprod -march=armv8.2-a+dotprod)
set(QN_ISA_FLAGS_neon_i8mm -march=armv8.2-a+dotprod+i8mm)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(QN_ARCH x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(QN_ARCH arm)
else()
    set(QN_ARCH generic)
endif()

# quench_isa_flags(FILES...): give each file the flags of its suffix (longest match).
function(quench_isa_flags)
    foreach(file IN LISTS ARGN)
        foreach(isa avx512_bf16 avx512_vnni avx512 avx_vnni avx2 neon_i8mm neon_dotprod neon)
            if(file MATCHES "_${isa}\\.c$")
                set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
                                            "${QN_ISA_FLAGS_${isa}}")
                break()
            endif()
        endforeach()
    endforeach()
endfunction()
