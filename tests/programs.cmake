# One test program per folder, one CTest test per file of it, so that `ctest -R validate_test` runs
# validate_test.cpp.

# Everything that runs without mpirun and without the whole program, fuzzers too.
add_custom_target(unit_tests)

# Headers that nearly every test includes, parsed once. Tests are compiled without optimisation: most run for
# milliseconds.
add_library(plumbline_test_headers OBJECT ${PROJECT_SOURCE_DIR}/tests/support/precompiled.cpp)
target_link_libraries(plumbline_test_headers PRIVATE plumbline_options fmt::fmt GTest::gmock
  nlohmann_json::nlohmann_json)
target_precompile_headers(plumbline_test_headers PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/precompiled.hpp)
target_compile_options(plumbline_test_headers PRIVATE -O0)
# plumbline_test_options(target [level]): the level, -O2, is for tests that compute much; -O1 under
# sanitizers.
function(plumbline_test_options target)
  if(ARGN AND PLUMBLINE_SANITIZE)
    set_target_properties(${target} PROPERTIES PLUMBLINE_HOT ON)
  elseif(ARGN)
    target_compile_options(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM plumbline_test_headers)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# plumbline_naming(out files ... DEFINITIONS name=value ...): the files that name a definition.
function(plumbline_naming out)
  cmake_parse_arguments(ARG "" "" "DEFINITIONS" ${ARGN})
  list(TRANSFORM ARG_DEFINITIONS REPLACE "=.*" "" OUTPUT_VARIABLE names)
  list(JOIN names "|" names)
  set(found "")
  foreach(file IN LISTS ARG_UNPARSED_ARGUMENTS)
    file(STRINGS ${file} named REGEX "${names}" LIMIT_COUNT 1)
    if(named)
      list(APPEND found ${file})
    endif()
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# plumbline_test_program(name SOURCES a_test.cpp support.cpp ... [DEPENDS ...] [DEFINITIONS ...]
#                        [OPTIMIZE level] [RANKS 1 2 4] [LABELS ...] [WHOLE])
# Registers a test for every source that is called ..._test.cpp. `a_test.cpp:2:4` runs on other rank counts
# than those of RANKS. With RANKS the program is an MPI program and each test runs under mpirun once per rank
# count, as name.Nranks. The program's name is a label of its tests.
# WHOLE: one test named like the program, whatever its files, each compiled alone.
# OPTIMIZE: for tests that compute much.
# Tests are compiled in batches (cmake/library.cmake): headers are most of a compiler's input. Names cannot
# clash, since a test has a namespace of its own, plumbline::a_test; what it shares is compiled alone.
function(plumbline_test_program program)
  cmake_parse_arguments(ARG "WHOLE" "OPTIMIZE" "SOURCES;DEPENDS;DEFINITIONS;RANKS;LABELS" ${ARGN})
  set(files ${ARG_SOURCES})
  list(TRANSFORM files REPLACE "[.]cpp:.*" ".cpp")
  # Apart: with the checkout's path in them ccache could not use the others' objects in another clone.
  list(APPEND ARG_DEFINITIONS PLUMBLINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  plumbline_naming(defined ${files} DEFINITIONS ${ARG_DEFINITIONS})
  list(REMOVE_ITEM files ${defined})
  add_executable(${program} ${files})
  set(targets ${program})
  if(defined)
    add_library(${program}_with_paths OBJECT ${defined})
    target_compile_definitions(${program}_with_paths PRIVATE ${ARG_DEFINITIONS})
    list(APPEND targets ${program}_with_paths)
  endif()
  if(PLUMBLINE_UNITY AND NOT ARG_WHOLE)
    set(shared ${files} ${defined})
    list(FILTER shared EXCLUDE REGEX "_test[.]cpp$")
    set_source_files_properties(${shared} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    foreach(target IN LISTS targets)
      plumbline_batches(${target} BYTES 70000)
    endforeach()
  endif()
  if(defined)
    target_sources(${program} PRIVATE $<TARGET_OBJECTS:${program}_with_paths>)
  endif()
  set(main GTest::gtest_main)
  if(ARG_RANKS)
    set(main GTest::gtest)  # an MPI test brings its own main
    target_sources(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp PROPERTIES
      SKIP_PRECOMPILE_HEADERS ON)
    list(APPEND ARG_DEPENDS MPI::MPI_CXX)
  endif()
  foreach(target IN LISTS targets)
    target_link_libraries(${target} PRIVATE plumbline_options ${ARG_DEPENDS} ${main} GTest::gmock)
    plumbline_test_options(${target} ${ARG_OPTIMIZE})
  endforeach()
  if(NOT ARG_RANKS AND NOT "cli" IN_LIST ARG_LABELS)
    add_dependencies(unit_tests ${program})
  endif()
  if(ARG_WHOLE)
    plumbline_add_test(${program} COMMAND $<TARGET_FILE:${program}> RANKS ${ARG_RANKS}
      LABELS ${program} ${ARG_LABELS})
    set(ARG_SOURCES "")
  endif()
  foreach(source IN LISTS ARG_SOURCES)
    if(source MATCHES "^(.*_test[.]cpp):(.*)$")
      string(REPLACE ":" ";" ranks "${CMAKE_MATCH_2}")
      plumbline_test(${program} ${CMAKE_MATCH_1} RANKS ${ranks} LABELS ${ARG_LABELS})
    elseif(source MATCHES "_test[.]cpp$")
      plumbline_test(${program} ${source} RANKS ${ARG_RANKS} LABELS ${ARG_LABELS})
    endif()
  endforeach()
endfunction()

# plumbline_test(program a_test.cpp [RANKS 1 2 4] [LABELS ...]): the suites that the file defines, run by the
# program. A file without any is refused.
function(plumbline_test program source)
  cmake_parse_arguments(ARG "" "" "RANKS;LABELS" ${ARGN})
  cmake_path(GET source STEM name)
  file(STRINGS ${source} lines REGEX "^(TEST|TEST_F|TEST_P|RC_GTEST_PROP)\\(")
  list(TRANSFORM lines REPLACE "^[A-Z_]+\\( *([A-Za-z0-9_]+).*" "\\1")
  list(REMOVE_DUPLICATES lines)
  if(NOT lines)
    message(FATAL_ERROR "${source}: no TEST of GoogleTest starts a line of it")
  endif()
  file(STRINGS ${source} own REGEX "^namespace plumbline[a-z0-9_:]*::${name} {$" LIMIT_COUNT 1)
  if(NOT own)
    message(FATAL_ERROR "${source}: no namespace plumbline::${name}, its own, starts a line of it")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})  # another suite: another filter
  set(filter "")
  foreach(suite IN LISTS lines)
    list(APPEND filter "${suite}.*" "*/${suite}.*")
  endforeach()
  list(JOIN filter ":" filter)
  plumbline_add_test(${name} COMMAND $<TARGET_FILE:${program}> "--gtest_filter=${filter}"
    RANKS ${ARG_RANKS} LABELS ${program} ${ARG_LABELS})
endfunction()

# plumbline_add_test(name COMMAND program [argument ...] [RANKS 1 2 4] [LABELS ...])
function(plumbline_add_test name)
  cmake_parse_arguments(ARG "" "" "COMMAND;RANKS;LABELS" ${ARGN})
  if(NOT ARG_RANKS)
    add_test(NAME ${name} COMMAND ${ARG_COMMAND})
    set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS "unit;${ARG_LABELS}")
  endif()
  foreach(ranks IN LISTS ARG_RANKS)
    add_test(NAME ${name}.${ranks}ranks
      COMMAND ${MPIEXEC_EXECUTABLE} -n ${ranks} --oversubscribe --bind-to none ${ARG_COMMAND})
    set(variables OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
      OMPI_MCA_coll_libnbc_iallreduce_algorithm=3)
    set_tests_properties(${name}.${ranks}ranks PROPERTIES TIMEOUT 600 LABELS "mpi;${ARG_LABELS}"
      PROCESSORS ${ranks} ENVIRONMENT "${variables}")
  endforeach()
endfunction()
