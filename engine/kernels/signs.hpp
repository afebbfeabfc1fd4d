#pragma once
// Sums of signs that are stored as bits, eight at a time: every value of a byte has its sum in a table ("four Russians"). Bit i of a
// row stands in byte i / 8, at place i % 8; x_i is +1 where it is set and -1 where not. Tables are (bytes, 256, heads); bytes past
// d / 8 and places past d weigh nothing.

#include "engine/core/dtype.hpp"

namespace gradus::kernels {

struct SignRows {
  const std::uint8_t* bits;
  index_t row_bytes;  // from one row to the next
  index_t rows, d;
};

template <class T>
struct SignKernels {
  /// table[byte][value][h] = sum of +-w[h * d + i] over the byte's places i, + where the value has the bit.
  void (*tabulate)(const T* w, index_t d, index_t heads, T* table);
  /// y[r * heads + h] = sum_i x_ri w_hi, in the order of the bytes.
  void (*sums)(const SignRows& x, const T* table, index_t heads, T* y);
  /// table[byte][value][h] += g[r * heads + h] for the value that row r has there, row after row.
  void (*collect)(const SignRows& x, const T* g, index_t heads, T* table);
  /// gw[h * d + i] = sum over values of +-table[byte][value][h]: after collect, sum_r x_ri g_rh.
  void (*fold)(const T* table, index_t d, index_t heads, T* gw);
};

}  // namespace gradus::kernels
