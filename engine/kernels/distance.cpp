#include "engine/kernels/distance.hpp"

#include "engine/kernels/distance_assign.hpp"
#include "engine/kernels/distance_backward.hpp"
#include "engine/kernels/nearest.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

// Points that a thread takes at once, in whole tiles.
index_t rows_grain(index_t k, index_t d) { return round_up(grain_for(2 * k * d), 2 * tile_points); }

template <class T>
void squared_distance(const DistanceArgs<T>& args) {
  if (args.batch <= 0 || args.n <= 0 || args.k <= 0) return;
  const bool shared = args.c_batch == 0;
  const index_t elements = Centres<T>::elements(args.k, args.d);
  Scratch<T> common(shared ? elements : 0);
  if (shared) pack_centres(common.data(), args.c, args.c_row, args.k, args.d);
  for_batch(args.batch, 2 * args.n * args.k * args.d, [&](index_t item, bool threads) {
    Scratch<T> own(shared ? 0 : elements);
    const Centres<T> centres =
        shared ? Centres<T>{common.data(), args.k, args.d} : pack_centres(own.data(), args.c + item * args.c_batch, args.c_row, args.k, args.d);
    const T* x = args.x + item * args.x_batch;
    T* out = args.out + item * args.out_batch;
    parallel_chunks(args.n, threads ? rows_grain(args.k, args.d) : args.n, [&](index_t begin, index_t end) {
      constexpr index_t visit = 96;  // points whose coordinates stay cached while all centres pass
      for (index_t i = begin; i < end; i += visit)
        distance_rows(x + i * args.x_row, args.x_row, std::min(visit, end - i), centres, out + i * args.out_row, args.out_row);
    });
  });
}

template <class T>
void nearest(const NearestArgs<T>& args) {
  Scratch<T> room(Centres<T>::elements(args.k, args.d));
  const Centres<T> centres = pack_centres(room.data(), args.c, args.c_row, args.k, args.d);
  parallel_chunks(args.n, round_up(rows_grain(args.k, args.d), NearestLanes<T>::lanes), [&](index_t begin, index_t end) {
    Scratch<T> panel(NearestLanes<T>::elements(args.d)), row(round_up(args.k, width<T>));
    NearestLanes<T> lanes(panel.data(), args.c, args.c_row, args.k, args.d);
    for (index_t i = begin; i < end; i += NearestLanes<T>::lanes) {
      const index_t count = std::min(NearestLanes<T>::lanes, end - i);
      lanes.find(args.x + i * args.x_row, args.x_row, count);
      for (index_t l = 0; l < count; ++l) {
        Least<T> least{lanes.least[l], static_cast<index_t>(lanes.index[l])};
        if (lanes.odd(l)) least = find_least(distance_row(args.x + (i + l) * args.x_row, centres, row.data()), round_up(args.k, width<T>));
        if (args.index != nullptr) args.index[i + l] = least.index;
        if (args.distance != nullptr) args.distance[i + l] = least.distance;
      }
    }
  });
}

template <class T>
void distance_packed(const PackedDistanceArgs<T>& args) {
  distance_rows(args.x, args.x_row, args.n, Centres<T>{args.c, args.k, args.d}, args.out, args.out_row);
}

}  // namespace

extern const DistanceKernels<float> distance_f32;
extern const DistanceKernels<double> distance_f64;
const DistanceKernels<float> distance_f32{squared_distance<float>, squared_distance_backward<float>, nearest<float>, assign_accumulate<float>,
                                          distance_packed<float>};
const DistanceKernels<double> distance_f64{squared_distance<double>, squared_distance_backward<double>, nearest<double>, assign_accumulate<double>,
                                           distance_packed<double>};

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
