#pragma once
// Catch2 in either of the versions that distributions ship (2.13 and 3), under the names of version 2.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
using Catch::Detail::Approx;
#endif
