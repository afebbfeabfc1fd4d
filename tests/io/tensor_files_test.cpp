#include "engine/io/tensor_files.hpp"

#include "engine/tensor/view.hpp"
#include "tests/io/data.hpp"

using namespace gradus;
using namespace gradus::testing;

TEST_CASE("tensors of every dtype and layout come back from npy files", "[io]") {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.npy");
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean})
    for (const Tensor& t : {Tensor::of({{1, 0, 1}, {0, 1, 0}}, dtype), view::transpose(Tensor::of({{1, 0, 1}, {0, 1, 0}}, dtype), 0, 1), Tensor::of(1, dtype),
                            Tensor::zeros({0, 3}, dtype), view::expand(Tensor::ones({1, 2}, dtype), {3, 2})}) {
      io::save_npy(path, t, true);
      CHECK(equal(io::load_npy(path), t));
    }
  CHECK_THROWS_AS(io::save_npy(path, Tensor::ones({1})), IoError);
}

TEST_CASE("a table becomes a matrix of its number columns", "[io]") {
  const io::Table table = io::parse_table("a,b,class\n1,2,x\n3,4,y\n", "here");
  CHECK(equal(io::to_tensor(table), Tensor::of({{1, 2}, {3, 4}}, DType::f64)));
  CHECK(io::to_tensor(table, DType::f32).dtype() == DType::f32);
}
