# spillway_library(NAME part SOURCES a.cpp ... LINKS other_part ...)
# Declares the static library spillway_<part> (alias spillway::<part>) with the project's warnings.
function(spillway_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
      -Wcast-align -Wnull-dereference>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${SPILLWAY_WERROR}>>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${SPILLWAY_WERROR}>>:-Werror=all-warnings>)
endfunction()

function(spillway_library)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  set(target "spillway_${ARG_NAME}")
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(spillway::${ARG_NAME} ALIAS ${target})
  target_include_directories(${target}
    PUBLIC "${PROJECT_SOURCE_DIR}/include" PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  spillway_warnings(${target})
endfunction()

# spillway_test(NAME name SOURCES x_test.cpp ... LINKS spillway::part ... LABELS unit core ...)
# One GoogleTest program; each of its cases becomes a ctest case named <name>.<Suite>.<Case>.
function(spillway_test)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_include_directories(${ARG_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_LINKS} GTest::gmock_main GTest::gtest)
  target_compile_definitions(${ARG_NAME} PRIVATE SPILLWAY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  spillway_warnings(${ARG_NAME})
  gtest_discover_tests(${ARG_NAME} TEST_PREFIX "${ARG_NAME}." DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60)
  # gtest_discover_tests keeps only the first element of a list property, so the labels follow in a
  # file of their own, which ctest reads after the discovered names.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}_labels.cmake")
  file(WRITE "${labels_file}"
    "foreach(test IN LISTS ${ARG_NAME}_TESTS)\n"
    "  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"${ARG_LABELS}\")\n"
    "endforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()
