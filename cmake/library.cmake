# libdawn9 with the header engine/dawn9.h. libdawn9.so exports only the functions that the header declares; libdawn9.a
# has the symbols of the engine, too. Both load the backend modules of lib/dawn9 (engine/core/installed.c). The CMake
# targets of an installed dawn9 are dawn9::dawn9 and dawn9::static.
file(GLOB API_SOURCES CONFIGURE_DEPENDS engine/api/*.c)
add_library(dawn9_api OBJECT ${API_SOURCES})
target_link_libraries(dawn9_api PRIVATE dawn9_engine)
target_compile_options(dawn9_api PRIVATE ${DAWN9_STACK})

add_library(dawn9_shared SHARED $<TARGET_OBJECTS:dawn9_api>)
target_link_libraries(dawn9_shared PRIVATE dawn9_engine)
# While the major version is 0, a new minor version may change the interface.
set_target_properties(dawn9_shared PROPERTIES OUTPUT_NAME dawn9 EXPORT_NAME dawn9 LINKER_LANGUAGE C
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(NOT DAWN9_SANITIZE) # with sanitizers the program links their runtime
  target_link_options(dawn9_shared PRIVATE -Wl,--no-undefined)
endif()

set(static_objects $<TARGET_OBJECTS:dawn9_api> $<TARGET_OBJECTS:dawn9_engine> $<TARGET_OBJECTS:dawn9_kernels>)
foreach(level plain v3 v4 v4bf16)
  if(TARGET dawn9_loops_${level})
    list(APPEND static_objects $<TARGET_OBJECTS:dawn9_loops_${level}>)
  endif()
endforeach()
add_library(dawn9_static STATIC ${static_objects})
set_target_properties(dawn9_static PROPERTIES OUTPUT_NAME dawn9 EXPORT_NAME static LINKER_LANGUAGE C)
if(WEBP_FOUND)
  set(webp webp)
endif()
set(static_libraries yaml jansson md png z ${webp} ${OpenMP_C_LIB_NAMES} m ${CMAKE_DL_LIBS})
target_link_libraries(dawn9_static INTERFACE ${static_libraries})

foreach(library dawn9_shared dawn9_static)
  set_target_properties(${library} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
                        ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/engine>
                             $<INSTALL_INTERFACE:include>)
endforeach()
add_library(dawn9::dawn9 ALIAS dawn9_shared) # the names of an installed dawn9, for projects that use add_subdirectory
add_library(dawn9::static ALIAS dawn9_static)

# ---- for users: CMake package and pkg-config file, both with paths relative to themselves ----
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/dawn9)
configure_package_config_file(cmake/dawn9-config.cmake.in ${PROJECT_BINARY_DIR}/dawn9-config.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dawn9-config-version.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH prefix_from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
list(TRANSFORM static_libraries PREPEND -l OUTPUT_VARIABLE static_flags)
list(JOIN static_flags " " static_flags)
configure_file(cmake/dawn9.pc.in ${PROJECT_BINARY_DIR}/dawn9.pc @ONLY)

install(TARGETS dawn9_shared dawn9_static EXPORT dawn9-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES engine/dawn9.h DESTINATION include)
install(EXPORT dawn9-targets NAMESPACE dawn9:: DESTINATION ${package_folder})
install(FILES ${PROJECT_BINARY_DIR}/dawn9-config.cmake ${PROJECT_BINARY_DIR}/dawn9-config-version.cmake
        DESTINATION ${package_folder})
install(FILES ${PROJECT_BINARY_DIR}/dawn9.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
