#include "tools/commands.hpp"

int main(int argc, char** argv) { return gradus::tools::run_program(argc, argv); }
