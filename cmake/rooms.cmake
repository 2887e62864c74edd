# quench_room(NAME SOURCES...): one room of src/, compiled once and put into both libraries.
# The include rules of src/ROOMS are checked before anything compiles.
find_program(QN_AWK awk REQUIRED)
add_custom_target(check_rooms
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/check-rooms.sh ${CMAKE_SOURCE_DIR}
    COMMENT "Checking the rooms" VERBATIM)

set_property(GLOBAL PROPERTY QUENCH_ROOMS "")
function(quench_room name)
    add_library(room_${name} OBJECT ${ARGN})
    target_include_directories(room_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src
                               ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(room_${name} PRIVATE quench_flags)
    add_dependencies(room_${name} check_rooms)
    set_property(GLOBAL APPEND PROPERTY QUENCH_ROOMS ${name})
endfunction()
