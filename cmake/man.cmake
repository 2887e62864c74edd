# Man pages and shell completions, both made from the option tables by the command itself.
find_program(QN_SCDOC scdoc)
if(CMAKE_CROSSCOMPILING OR NOT QN_SCDOC)
    message(STATUS "man pages and completions: no (needs scdoc and a native build)")
    return()
endif()

set(man_folder ${CMAKE_BINARY_DIR}/man)
file(MAKE_DIRECTORY ${man_folder})
file(GLOB man_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.scd)
foreach(source IN LISTS man_sources)
    get_filename_component(page ${source} NAME_WLE)
    if(page MATCHES "\\.1$")
        add_custom_command(OUTPUT ${man_folder}/${page}
            COMMAND ${CMAKE_SOURCE_DIR}/scripts/make-man.sh $<TARGET_FILE:quench_command> ${source}
                    ${man_folder}/${page}
            DEPENDS quench_command ${source} ${CMAKE_SOURCE_DIR}/scripts/make-man.sh VERBATIM)
    else()
        add_custom_command(OUTPUT ${man_folder}/${page}
            COMMAND ${CMAKE_SOURCE_DIR}/scripts/make-man.sh : ${source} ${man_folder}/${page}
            DEPENDS ${source} ${CMAKE_SOURCE_DIR}/scripts/make-man.sh VERBATIM)
    endif()
    list(APPEND man_pages ${man_folder}/${page})
endforeach()

set(completion_folder ${CMAKE_BINARY_DIR}/completions)
file(MAKE_DIRECTORY ${completion_folder})
foreach(shell_file bash:quench zsh:_quench fish:quench.fish)
    string(REGEX REPLACE ":.*" "" shell ${shell_file})
    string(REGEX REPLACE ".*:" "" file ${shell_file})
    add_custom_command(OUTPUT ${completion_folder}/${file}
        COMMAND sh -c "'$<TARGET_FILE:quench_command>' completion ${shell} >'${completion_folder}/${file}'"
        DEPENDS quench_command VERBATIM)
    list(APPEND completions ${completion_folder}/${file})
endforeach()
add_custom_target(quench_documentation ALL DEPENDS ${man_pages} ${completions})

foreach(page IN LISTS man_pages)
    string(REGEX REPLACE ".*\\." "" section ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
install(FILES ${completion_folder}/quench
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${completion_folder}/_quench DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${completion_folder}/quench.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
