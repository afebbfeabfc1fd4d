# Installs the build into an empty place, then configures, builds and runs the project beside this file against it.
# Given: BUILD, WORK (emptied), SOURCE, GENERATOR, COMPILER, BUILD_TYPE.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run("installing" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run("configuring the user's project" ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${BUILD_TYPE})
run("building the user's project" ${CMAKE_COMMAND} --build ${WORK}/build)
run("running the user's project" ${WORK}/build/user)
if(NOT output MATCHES "2.*4.*6")
  message(FATAL_ERROR "the user's program printed: ${output}")
endif()
file(REMOVE_RECURSE ${WORK})
