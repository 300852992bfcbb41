# `cmake --install`: the program with its manual pages (component `program`), and the prediction library
# (component `library`). Other projects find it with find_package(plumbline). cmake/README.md shows a
# consumer.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(header_folder ${CMAKE_INSTALL_INCLUDEDIR}/plumbline)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/plumbline)

# Libraries for predictions only: no MPI, no operators, no CUDA.
set(libraries core schedules analysis cluster plan)
list(TRANSFORM libraries PREPEND plumbline_ OUTPUT_VARIABLE targets)
foreach(library IN LISTS libraries)
  set_target_properties(plumbline_${library} PROPERTIES EXPORT_NAME ${library})
endforeach()
install(TARGETS plumbline_options ${targets} EXPORT plumbline
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(EXPORT plumbline NAMESPACE plumbline:: FILE plumblineTargets.cmake DESTINATION ${package_folder}
  COMPONENT library)
install(DIRECTORY core schedules analysis DESTINATION ${header_folder} COMPONENT library
  FILES_MATCHING PATTERN "*.hpp" REGEX "/core/(backends|profile)$" EXCLUDE)
install(FILES bench/plan/plan.hpp DESTINATION ${header_folder}/bench/plan COMPONENT library)

plumbline_version(version)
string(REGEX MATCH "^[0-9]+[.][0-9]+[.][0-9]+" package_version ${version})
configure_package_config_file(cmake/plumblineConfig.cmake.in ${PROJECT_BINARY_DIR}/plumblineConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/plumblineConfigVersion.cmake VERSION ${package_version}
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/plumblineConfig.cmake ${PROJECT_BINARY_DIR}/plumblineConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT library)

install(TARGETS plumbline RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
if(TARGET plumbline_cuda_program)  # plumbline looks for it in its own folder
  # bench/run.sh builds the program alone.
  install(TARGETS plumbline_cuda_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program OPTIONAL)
  install(CODE "
    if(NOT EXISTS \"$<TARGET_FILE:plumbline_cuda_program>\")
      message(STATUS \"plumbline-cuda is not built and left out; for backend cuda build all targets first\")
    endif()" COMPONENT program)
endif()
# The program writes its manual pages itself: one of its own, one per command and topic.
install(CODE "
  set(folder \"${PROJECT_BINARY_DIR}/man1\")
  file(REMOVE_RECURSE \"\${folder}\")
  file(MAKE_DIRECTORY \"\${folder}\")
  set(manual \"${PROJECT_SOURCE_DIR}/bench/commands/help/pages\")
  file(GLOB pages RELATIVE \"\${manual}\" \"\${manual}/*.md\")
  foreach(page IN LISTS pages)
    string(REPLACE .md \"\" topic \"\${page}\")
    set(name plumbline-\${topic})
    if(topic STREQUAL plumbline)
      set(name plumbline)
      set(topic \"\")
    endif()
    execute_process(COMMAND \"$<TARGET_FILE:plumbline>\" help \${topic} --format man
      OUTPUT_FILE \"\${folder}/\${name}.1\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  " COMPONENT program)
install(DIRECTORY ${PROJECT_BINARY_DIR}/man1/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
