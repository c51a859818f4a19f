# Help besides --help. The completions are files of completions/, embedded in the command (`dawn9 help --completion
# bash`) and copied to completions/ of the build folder under the names that shells look for. The command prints
# man/dawn9.1 from its own tables.
set(SHELL_NAMES bash:dawn9.bash zsh:_dawn9 fish:dawn9.fish)
set(SHELL_FILES "")
foreach(pair ${SHELL_NAMES})
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 shell)
  list(GET pair 1 name)
  list(APPEND SHELL_FILES ${PROJECT_SOURCE_DIR}/completions/dawn9.${shell})
  configure_file(${PROJECT_SOURCE_DIR}/completions/dawn9.${shell} ${PROJECT_BINARY_DIR}/completions/${name} COPYONLY)
endforeach()

add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/completions.h
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/completions -DOUT=${PROJECT_BINARY_DIR}/completions.h
          -DTYPE=completion -DNAME=completions -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${SHELL_FILES} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
target_sources(dawn9_cli PRIVATE ${PROJECT_BINARY_DIR}/completions.h)
target_include_directories(dawn9_cli PRIVATE ${PROJECT_BINARY_DIR})

add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/man/dawn9.1
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
  COMMAND dawn9 help --man > ${PROJECT_BINARY_DIR}/man/dawn9.1
  DEPENDS dawn9 VERBATIM)
add_custom_target(dawn9_man ALL DEPENDS ${PROJECT_BINARY_DIR}/man/dawn9.1)
