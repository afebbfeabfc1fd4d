// Every op with every parameter: the table below changes one parameter at a time, which must change the value or the gradient; the
// public headers say which parameters there are.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "engine/ops/activation.hpp"
#include "engine/ops/attention.hpp"
#include "engine/ops/bits.hpp"
#include "engine/ops/clustering_loss.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/distance.hpp"
#include "engine/ops/dropout.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/linear.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/norms.hpp"
#include "engine/ops/quantize.hpp"
#include "engine/ops/random_stream.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/ops/scan.hpp"
#include "engine/ops/sort.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

// Headers that definitions share; what tests and users call stands in all others.
const std::set<std::string> internal_headers = {"attention_block", "attention_blocks",  "attention_parts", "define",   "distance_gradient", "loss_parts",
                                                "map_rows",        "masked_accumulate", "reduce_rules",    "registry", "simplex_rows",      "windows"};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return std::regex_replace(text.str(), std::regex("//[^\n]*"), "");
}

std::vector<std::string> arguments_of(const std::string& list) {
  std::vector<std::string> arguments;
  std::string now;
  int depth = 0;
  for (const char c : list + ",") {
    depth += c == '(' || c == '<' || c == '{' ? 1 : 0;
    depth -= c == ')' || c == '>' || c == '}' ? 1 : 0;
    if (c == ',' && depth == 0) {
      arguments.push_back(now);
      now.clear();
    } else {
      now += c;
    }
  }
  return arguments;
}

// "struct.member" for every option and "function.parameter" for every argument that is no tensor.
std::set<std::string> parameters_of_all_ops() {
  static const std::regex structure(R"(struct (\w+(?:Options|Spec)) \{([^}]*(?:\{\}[^}]*)*)\n\};)"), member(R"(\n  (?!static)[\w:]+ (\w+)(?:\{\}| =)?[^;]*;)"),
      function(R"(\n\[\[nodiscard\]\] \w+ (\w+)\(([^;]*)\);)"),
      parameter(R"(^\s*(?!\s|(?:const )?(?:Tensor|std::span<const Tensor|\w+Options|\w+Spec)\b)[\w:<> ]+[&\s]+(\w+)(?: =.*)?$)");
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(GRADUS_SOURCE_DIR) / "engine/ops")) {
    if (entry.path().extension() != ".hpp" || internal_headers.contains(entry.path().stem().string())) continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator i(text.begin(), text.end(), structure), end; i != end; ++i) {
      const std::string name = (*i)[1], body = (*i)[2];
      for (std::sregex_iterator j(body.begin(), body.end(), member); j != end; ++j) all.insert(name + "." + (*j)[1].str());
    }
    for (std::sregex_iterator i(text.begin(), text.end(), function), end; i != end; ++i)
      for (const std::string& argument : arguments_of((*i)[2])) {
        std::smatch found;
        if (std::regex_search(argument, found, parameter)) all.insert((*i)[1].str() + "." + found[1].str());
      }
  }
  return all;
}

using Op = std::function<Tensor(const Tensor&)>;

struct Change {
  Tensor at;
  Op from, to;
};

Tensor numbers(const Shape& shape, std::uint64_t seed = 1) { return random_normal(shape, DType::f64, seed); }
Tensor positive(const Shape& shape, std::uint64_t seed = 1) { return random_uniform(shape, DType::f64, 0.1, 1, seed); }

bool differ(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return true;
  return a.dtype() == DType::f64 ? !(max_difference(a, b) <= 1e-9) : !equal(a, b);
}

bool matters(const Change& change) {
  if (differ(change.from(change.at), change.to(change.at))) return true;
  return differ(gradient(change.from, change.at), gradient(change.to, change.at));
}

// A change of every option of a struct that several ops take, for one of them.
template <class Options>
Change with(const Tensor& at, std::function<Tensor(const Tensor&, const Options&)> op, const Options& from, const Options& to) {
  return {at, [=](const Tensor& x) { return op(x, from); }, [=](const Tensor& x) { return op(x, to); }};
}

using Table = std::multimap<std::string, Change>;

void add_reductions(Table& t) {
  const Tensor x = positive({3, 4});
  using F = Tensor (*)(const Tensor&, const ReduceOptions&);
  const auto var_of = [](const Tensor& y, const ReduceOptions& o) { return var(y, o); };
  const auto std_of = [](const Tensor& y, const ReduceOptions& o) { return stddev(y, o); };
  const auto norm_of = [](const Tensor& y, const ReduceOptions& o) { return norm(y, 2, o); };
  for (const F f : {F(sum), F(mean), F(max), F(min), F(prod), F(logsumexp), F(+var_of), F(+std_of), F(+norm_of)}) {
    t.insert({"ReduceOptions.axes", with<ReduceOptions>(x, f, {.axes = {0}}, {.axes = {1}})});
    t.insert({"ReduceOptions.keep", with<ReduceOptions>(x, f, {.axes = {0}}, {.axes = {0}, .keep = true})});
  }
  for (const F f : {F(all), F(any)}) {
    const auto of_bools = [f](const Tensor& y, const ReduceOptions& o) { return f(greater(y, 0.5), o); };
    t.insert({"ReduceOptions.axes", with<ReduceOptions>(x, of_bools, {.axes = {0}}, {.axes = {1}})});
    t.insert({"ReduceOptions.keep", with<ReduceOptions>(x, of_bools, {.axes = {0}}, {.axes = {0}, .keep = true})});
  }
  t.insert({"var.correction", {x, [](auto& y) { return var(y, {}, 0); }, [](auto& y) { return var(y, {}, 1); }}});
  t.insert({"stddev.correction", {x, [](auto& y) { return stddev(y, {}, 0); }, [](auto& y) { return stddev(y, {}, 1); }}});
  t.insert({"norm.p", {x, [](auto& y) { return norm(y, 2); }, [](auto& y) { return norm(y, 1); }}});
  t.insert({"argmax.axis", {x, [](auto& y) { return argmax(y, 0); }, [](auto& y) { return argmax(y, 1); }}});
  t.insert({"argmin.axis", {x, [](auto& y) { return argmin(y, 0); }, [](auto& y) { return argmin(y, 1); }}});
  t.insert({"argmax.keep", {x, [](auto& y) { return argmax(y, 0); }, [](auto& y) { return argmax(y, 0, true); }}});
  t.insert({"argmin.keep", {x, [](auto& y) { return argmin(y, 0); }, [](auto& y) { return argmin(y, 0, true); }}});
  for (Tensor (*f)(const Tensor&, const ScanOptions&) : {cumsum, cumprod}) {
    t.insert({"ScanOptions.axis", with<ScanOptions>(x, f, {.axis = 0}, {.axis = 1})});
    t.insert({"ScanOptions.reverse", with<ScanOptions>(x, f, {}, {.reverse = true})});
  }
  const auto scan = [](const Tensor& y, const ScanOptions& o) { return linear_scan(y, 2.0 * y, o); };
  t.insert({"ScanOptions.axis", with<ScanOptions>(x, scan, {.axis = 0}, {.axis = 1})});
  t.insert({"ScanOptions.reverse", with<ScanOptions>(x, scan, {}, {.reverse = true})});
  for (Tensor (*f)(const Tensor&, const SortOptions&) : {argsort, sort}) {
    t.insert({"SortOptions.axis", with<SortOptions>(x, f, {.axis = 0}, {.axis = 1})});
    t.insert({"SortOptions.descending", with<SortOptions>(x, f, {}, {.descending = true})});
  }
  const auto top = [](const Tensor& y, const TopkOptions& o) { return topk(y, 2, o).values; };
  t.insert({"TopkOptions.axis", with<TopkOptions>(x, top, {.axis = 0}, {.axis = 1})});
  t.insert({"TopkOptions.largest", with<TopkOptions>(x, top, {}, {.largest = false})});
  t.insert({"topk.k", {x, [](auto& y) { return topk(y, 1).values; }, [](auto& y) { return topk(y, 2).values; }}});
}

void add_layout(Table& t) {
  const Tensor x = numbers({3, 3}), row = numbers({3});
  const Tensor index = Tensor::from(std::vector<index_t>{0, 2, 1, 0, 1, 1, 2, 2, 0}, {3, 3}), places = Tensor::from(std::vector<index_t>{0, 2}, {2});
  t.insert({"reshape.shape", {x, [](auto& y) { return reshape(y, {9}); }, [](auto& y) { return reshape(y, {1, 9}); }}});
  t.insert({"permute.axes", {x, [](auto& y) { return permute(y, {0, 1}); }, [](auto& y) { return permute(y, {1, 0}); }}});
  t.insert({"transpose.a", {x, [](auto& y) { return transpose(y, 0, 1); }, [](auto& y) { return transpose(y, 1, 1); }}});
  t.insert({"transpose.b", {x, [](auto& y) { return transpose(y, 0, 1); }, [](auto& y) { return transpose(y, 0, 0); }}});
  t.insert({"expand.shape", {row, [](auto& y) { return expand(y, {2, 3}); }, [](auto& y) { return expand(y, {4, 3}); }}});
  t.insert({"unsqueeze.axis", {x, [](auto& y) { return unsqueeze(y, 0); }, [](auto& y) { return unsqueeze(y, 1); }}});
  t.insert({"squeeze.axis", {numbers({1, 2, 1}), [](auto& y) { return squeeze(y, 0); }, [](auto& y) { return squeeze(y, 2); }}});
  t.insert({"slice.axis", {x, [](auto& y) { return slice(y, 0, {0, 3, 2}); }, [](auto& y) { return slice(y, 1, {0, 3, 2}); }}});
  t.insert({"slice.slice", {x, [](auto& y) { return slice(y, 0, {0, 2}); }, [](auto& y) { return slice(y, 0, {1, 3}); }}});
  t.insert({"select.axis", {x, [](auto& y) { return select(y, 0, 1); }, [](auto& y) { return select(y, 1, 1); }}});
  t.insert({"select.index", {x, [](auto& y) { return select(y, 0, 1); }, [](auto& y) { return select(y, 0, 2); }}});
  t.insert({"flip.axis", {x, [](auto& y) { return flip(y, 0); }, [](auto& y) { return flip(y, 1); }}});
  t.insert({"diagonal.offset", {x, [](auto& y) { return diagonal(y); }, [](auto& y) { return diagonal(y, 1); }}});
  t.insert({"embed_slice.axis", {x, [](auto& y) { return embed_slice(y, 0, {0, 3}, 4); }, [](auto& y) { return embed_slice(y, 1, {0, 3}, 4); }}});
  t.insert({"embed_slice.slice", {x, [](auto& y) { return embed_slice(y, 0, {0, 3}, 4); }, [](auto& y) { return embed_slice(y, 0, {1, 4}, 4); }}});
  t.insert({"embed_slice.size", {x, [](auto& y) { return embed_slice(y, 0, {0, 3}, 4); }, [](auto& y) { return embed_slice(y, 0, {0, 3}, 5); }}});
  t.insert({"embed_diagonal.rows", {row, [](auto& y) { return embed_diagonal(y, 3, 3); }, [](auto& y) { return embed_diagonal(y, 4, 3); }}});
  t.insert({"embed_diagonal.columns", {row, [](auto& y) { return embed_diagonal(y, 3, 3); }, [](auto& y) { return embed_diagonal(y, 3, 4); }}});
  t.insert({"embed_diagonal.offset", {row, [](auto& y) { return embed_diagonal(y, 4, 4, 1); }, [](auto& y) { return embed_diagonal(y, 4, 4, -1); }}});
  t.insert({"pad.axis", {x, [](auto& y) { return pad(y, 0, 1, 0); }, [](auto& y) { return pad(y, 1, 1, 0); }}});
  t.insert({"pad.before", {x, [](auto& y) { return pad(y, 0, 1, 0); }, [](auto& y) { return pad(y, 0, 2, 0); }}});
  t.insert({"pad.after", {x, [](auto& y) { return pad(y, 0, 1, 0); }, [](auto& y) { return pad(y, 0, 1, 1); }}});
  const auto two = [](const Tensor& y) { return std::vector<Tensor>{y, 2.0 * y}; };
  t.insert({"concat.axis", {x, [two](auto& y) { return concat(two(y), 0); }, [two](auto& y) { return concat(two(y), 1); }}});
  t.insert({"stack.axis", {x, [two](auto& y) { return stack(two(y), 0); }, [two](auto& y) { return stack(two(y), 1); }}});
  const auto cut = [](const Tensor& y, std::vector<index_t> sizes, index_t axis) { return split(y, sizes, axis)[0]; };
  t.insert({"split.sizes", {x, [cut](auto& y) { return cut(y, {1, 2}, 0); }, [cut](auto& y) { return cut(y, {2, 1}, 0); }}});
  t.insert({"split.axis", {x, [cut](auto& y) { return cut(y, {1, 2}, 0); }, [cut](auto& y) { return cut(y, {1, 2}, 1); }}});
  t.insert({"split.parts", {x, [](auto& y) { return split(y, 1)[0]; }, [](auto& y) { return split(y, 3)[0]; }}});
  t.insert({"roll.axis", {x, [](auto& y) { return roll(y, 0, 1); }, [](auto& y) { return roll(y, 1, 1); }}});
  t.insert({"roll.shift", {x, [](auto& y) { return roll(y, 0, 1); }, [](auto& y) { return roll(y, 0, 2); }}});
  t.insert({"repeat.axis", {x, [](auto& y) { return repeat(y, 0, 2); }, [](auto& y) { return repeat(y, 1, 2); }}});
  t.insert({"repeat.count", {x, [](auto& y) { return repeat(y, 0, 2); }, [](auto& y) { return repeat(y, 0, 3); }}});
  t.insert({"tril.offset", {x, [](auto& y) { return tril(y); }, [](auto& y) { return tril(y, 1); }}});
  t.insert({"triu.offset", {x, [](auto& y) { return triu(y); }, [](auto& y) { return triu(y, 1); }}});
  t.insert({"gather.axis", {x, [=](auto& y) { return gather(y, 0, index); }, [=](auto& y) { return gather(y, 1, index); }}});
  t.insert({"scatter_add.axis", {x, [=](auto& y) { return scatter_add(y, 0, index, y); }, [=](auto& y) { return scatter_add(y, 1, index, y); }}});
  t.insert({"index_select.axis", {x, [=](auto& y) { return index_select(y, 0, places); }, [=](auto& y) { return index_select(y, 1, places); }}});
  t.insert({"one_hot.classes", {x, [=](auto&) { return one_hot(index, 3); }, [=](auto&) { return one_hot(index, 4); }}});
  t.insert({"one_hot.dtype", {x, [=](auto&) { return one_hot(index, 3, DType::f32); }, [=](auto&) { return one_hot(index, 3, DType::f64); }}});
}

void add_maps(Table& t) {
  const Tensor x = numbers({3, 3}), mask = booleans({{1, 1, 0}, {1, 0, 1}, {0, 1, 1}});
  using F = std::function<Tensor(const Tensor&, const MapOptions&)>;
  const F entmax_of = [](const Tensor& y, const MapOptions& o) { return entmax(y, 1.5, o); };
  const F normmax_of = [](const Tensor& y, const MapOptions& o) { return normmax(y, 2, o); };
  const F gumbel = [](const Tensor& y, const MapOptions& o) {
    return gumbel_softmax(y, {.axis = o.axis, .inverse_temperature = o.inverse_temperature, .mask = o.mask});
  };
  for (const F& f : std::vector<F>{softmax, log_softmax, sparsemax, entmax_of, normmax_of, gumbel})
    for (const char* type : {"MapOptions", "GumbelOptions"}) {
      t.insert({cat(type, ".axis"), with<MapOptions>(x, f, {.axis = 0}, {.axis = 1})});
      t.insert({cat(type, ".inverse_temperature"), with<MapOptions>(x, f, {}, {.inverse_temperature = 0.5})});
      t.insert({cat(type, ".mask"), with<MapOptions>(x, f, {}, {.mask = mask})});
    }
  t.insert({"GumbelOptions.hard", with<GumbelOptions>(x, gumbel_softmax, {}, {.hard = true})});
  t.insert({"GumbelOptions.seed", with<GumbelOptions>(x, gumbel_softmax, {}, {.seed = 1})});
  t.insert({"entmax.alpha", {x, [](auto& y) { return entmax(y, 1.5); }, [](auto& y) { return entmax(y, 1.2); }}});
  t.insert({"normmax.alpha", {x, [](auto& y) { return normmax(y, 2); }, [](auto& y) { return normmax(y, inf); }}});
  t.insert({"hardmax.axis", {x, [](auto& y) { return hardmax(y, 0); }, [](auto& y) { return hardmax(y, 1); }}});
  t.insert({"normalized_linear.axis", {positive({3, 3}), [](auto& y) { return normalized_linear(y, 0); }, [](auto& y) { return normalized_linear(y, 1); }}});
  t.insert(
      {"straight_through_hardmax.axis", {x, [](auto& y) { return straight_through_hardmax(y, 0); }, [](auto& y) { return straight_through_hardmax(y, 1); }}});
  t.insert({"add_gumbel.seed", {x, [](auto& y) { return add_gumbel(y, 0); }, [](auto& y) { return add_gumbel(y, 1); }}});
  using M = Tensor (*)(const Tensor&, const MapSpec&, index_t, const Tensor&);
  for (const M f : {M(apply_map), M(map_jacobian)}) {
    const char* name = f == M(apply_map) ? "apply_map" : "map_jacobian";
    const auto of = [&](const MapSpec& from, const MapSpec& to) {
      return with<MapSpec>(
          x, [f](const Tensor& y, const MapSpec& s) { return f(y.detached(), s, -1, {}); }, from, to);
    };
    t.insert({"MapSpec.kind", of({.kind = MapKind::softmax}, {.kind = MapKind::sparsemax})});
    t.insert({"MapSpec.inverse_temperature", of({}, {.inverse_temperature = 2.0})});
    t.insert({"MapSpec.alpha", of({.kind = MapKind::entmax}, {.kind = MapKind::entmax, .alpha = 1.1})});
    t.insert({cat(name, ".axis"), {x, [f](auto& y) { return f(y.detached(), {}, 0, {}); }, [f](auto& y) { return f(y.detached(), {}, 1, {}); }}});
  }
  const auto gumbel_map = [](bool hard, std::uint64_t seed) { return MapSpec{.kind = MapKind::gumbel_softmax, .hard = hard, .seed = seed}; };
  const auto apply_spec = [](const Tensor& y, const MapSpec& s) { return apply_map(y, s); };
  t.insert({"MapSpec.hard", with<MapSpec>(x, apply_spec, gumbel_map(false, 1), gumbel_map(true, 1))});
  t.insert({"MapSpec.seed", with<MapSpec>(x, apply_spec, gumbel_map(false, 1), gumbel_map(false, 2))});
}

void add_attention(Table& t) {
  const Tensor q = numbers({4, 6}), k = numbers({4, 6}, 2), v = numbers({4, 6}, 3), some = booleans({1, 0, 1, 1});
  const Tensor square = greater(numbers({4, 4}, 4), 0.0), added = numbers({4, 4}, 5);
  const auto fused = [=](const Tensor& x, const AttentionSpec& s) { return attention(x, k, v, s); };
  const auto parts = [=](const Tensor& x, const AttentionSpec& s) { return attention_with_weights(x, k, v, s).output; };
  for (const auto& f : std::vector<std::function<Tensor(const Tensor&, const AttentionSpec&)>>{fused, parts}) {
    const auto add = [&](const char* name, const AttentionSpec& from, const AttentionSpec& to) { t.insert({name, with<AttentionSpec>(q, f, from, to)}); };
    add("AttentionSpec.score", {}, {.score = Score::dot});
    add("AttentionSpec.score", {}, {.score = Score::euclidean});
    add("AttentionSpec.map", {}, {.map = {.kind = MapKind::sparsemax}});
    add("AttentionSpec.map", {}, {.map = {.inverse_temperature = 2.0}});
    add("AttentionSpec.key_mask", {}, {.key_mask = some});
    add("AttentionSpec.mask", {}, {.mask = square});
    add("AttentionSpec.mask", {}, {.mask = added});
    add("AttentionSpec.causal", {}, {.causal = true});
    add("AttentionSpec.dropout", {}, {.dropout = 0.5});
    add("AttentionSpec.dropout_seed", {.dropout = 0.5}, {.dropout = 0.5, .dropout_seed = 9});
    add("AttentionSpec.heads", {}, {.heads = 2});
  }
}

void add_windows(Table& t) {
  const Tensor x = numbers({1, 4, 7, 7}), w = numbers({4, 4, 3, 3}, 2), grouped = numbers({4, 2, 3, 3}, 3), bias = numbers({4}, 4);
  const auto conv = [=](const Tensor& y, const Conv2dOptions& o) { return conv2d(y, o.groups == 1 ? w : grouped, o); };
  const auto add = [&](const char* name, const Conv2dOptions& o) { t.insert({cat("Conv2dOptions.", name), with<Conv2dOptions>(x, conv, {}, o)}); };
  add("stride", {.stride = 2});
  add("stride", {.stride = {1, 2}});
  add("padding", {.padding = {1, 0}});
  add("dilation", {.dilation = {2, 1}});
  add("bias", {.bias = bias});
  const auto half = [=](const Tensor& y, const Conv2dOptions& o) { return conv2d(slice(y, 1, {0, 4 / o.groups}), slice(w, 1, {0, 4 / o.groups}), {}); };
  t.insert({"Conv2dOptions.groups", {x, [=](auto& y) { return half(y, {.groups = 2}); }, [=](auto& y) { return conv2d(y, grouped, {.groups = 2}); }}});
  const Tensor g = numbers({1, 4, 5, 5}, 5);
  t.insert({"conv2d_weight_gradient.kernel",
            {x, [=](auto& y) { return conv2d_weight_gradient(y, g, 3); },
             [=](auto& y) {
               return conv2d_weight_gradient(y, slice(g, 2, {0, 4}), {4, 3});
             }}});
  const auto back = [=](const Tensor& y, const ConvTranspose2dOptions& o) { return conv_transpose2d(y, o.groups == 1 ? w : grouped, o); };
  const auto add_back = [&](const char* name, const ConvTranspose2dOptions& from, const ConvTranspose2dOptions& to) {
    t.insert({cat("ConvTranspose2dOptions.", name), with<ConvTranspose2dOptions>(x, back, from, to)});
  };
  add_back("stride", {}, {.stride = {1, 2}});
  add_back("padding", {}, {.padding = {1, 0}});
  add_back("output_padding", {.stride = 2}, {.stride = 2, .output_padding = {1, 0}});
  add_back("dilation", {}, {.dilation = {2, 1}});
  add_back("groups", {}, {.groups = 2});
  add_back("bias", {}, {.bias = bias});
  const auto largest = [](const Tensor& y, const MaxPool2dOptions& o) { return max_pool2d(y, 2, o); };
  const auto places = [](const Tensor& y, const MaxPool2dOptions& o) { return max_pool2d_index(y, 2, o); };
  for (const auto& f : std::vector<std::function<Tensor(const Tensor&, const MaxPool2dOptions&)>>{largest, places}) {
    t.insert({"MaxPool2dOptions.stride", with<MaxPool2dOptions>(x, f, {}, {.stride = {1, 2}})});
    t.insert({"MaxPool2dOptions.padding", with<MaxPool2dOptions>(x, f, {}, {.padding = 1})});
    t.insert({"MaxPool2dOptions.dilation", with<MaxPool2dOptions>(x, f, {}, {.dilation = 2})});
  }
  const auto average = [](const Tensor& y, const AvgPool2dOptions& o) { return avg_pool2d(y, 2, o); };
  t.insert({"AvgPool2dOptions.stride", with<AvgPool2dOptions>(x, average, {}, {.stride = {1, 2}})});
  t.insert({"AvgPool2dOptions.padding", with<AvgPool2dOptions>(x, average, {}, {.padding = 1})});
  t.insert({"AvgPool2dOptions.dilation", with<AvgPool2dOptions>(x, average, {}, {.dilation = 2})});
  t.insert({"AvgPool2dOptions.count_include_pad", with<AvgPool2dOptions>(x, average, {.padding = 1}, {.padding = 1, .count_include_pad = false})});
  t.insert({"max_pool2d.window", {x, [](auto& y) { return max_pool2d(y, 2); }, [](auto& y) { return max_pool2d(y, {2, 3}); }}});
  t.insert({"max_pool2d_index.window", {x, [](auto& y) { return max_pool2d_index(y, 2); }, [](auto& y) { return max_pool2d_index(y, {2, 3}); }}});
  t.insert({"avg_pool2d.window", {x, [](auto& y) { return avg_pool2d(y, 2); }, [](auto& y) { return avg_pool2d(y, {2, 3}); }}});
}

void add_norms_and_linear(Table& t) {
  const Tensor x = numbers({3, 4, 4}), flat = numbers({3, 4}), four = positive({4}, 2), w = numbers({5, 4}, 3);
  t.insert({"LayerNormOptions.axes", with<LayerNormOptions>(x, layer_norm, {}, {.axes = 2})});
  t.insert({"LayerNormOptions.weight", with<LayerNormOptions>(x, layer_norm, {}, {.weight = four})});
  t.insert({"LayerNormOptions.bias", with<LayerNormOptions>(x, layer_norm, {}, {.bias = four})});
  t.insert({"LayerNormOptions.eps", with<LayerNormOptions>(x, layer_norm, {}, {.eps = 1e-2})});
  t.insert({"RmsNormOptions.axes", with<RmsNormOptions>(x, rms_norm, {}, {.axes = 2})});
  t.insert({"RmsNormOptions.weight", with<RmsNormOptions>(x, rms_norm, {}, {.weight = four})});
  t.insert({"RmsNormOptions.eps", with<RmsNormOptions>(x, rms_norm, {}, {.eps = 1e-2})});
  t.insert({"l2_normalize.axis", {x, [](auto& y) { return l2_normalize(y, 1); }, [](auto& y) { return l2_normalize(y, 2); }}});
  const auto eval = [=](const Tensor& y, const BatchNormOptions& o) { return batch_norm(y, 2.0 * four, four, o); };
  const auto train = [=](const Tensor& y, const BatchNormOptions& o) { return batch_norm_train(y, four, four, o).y; };
  const auto running = [=](const Tensor& y, const BatchNormOptions& o) { return batch_norm_train(y, four, four, o).running_variance; };
  for (const auto& f : std::vector<std::function<Tensor(const Tensor&, const BatchNormOptions&)>>{eval, train}) {
    t.insert({"BatchNormOptions.axis", with<BatchNormOptions>(x, f, {.axis = 1}, {.axis = 2})});
    t.insert({"BatchNormOptions.weight", with<BatchNormOptions>(x, f, {}, {.weight = four})});
    t.insert({"BatchNormOptions.bias", with<BatchNormOptions>(x, f, {}, {.bias = four})});
    t.insert({"BatchNormOptions.eps", with<BatchNormOptions>(x, f, {}, {.eps = 1e-2})});
  }
  t.insert({"BatchNormOptions.momentum", with<BatchNormOptions>(x, running, {}, {.momentum = 0.5})});
  t.insert({"BatchNormOptions.correction", with<BatchNormOptions>(x, running, {}, {.correction = 0})});
  const auto layer = [=](const Tensor& y, const LinearOptions& o) { return linear(y, w, o); };
  t.insert({"LinearOptions.bias", with<LinearOptions>(flat, layer, {}, {.bias = numbers({5}, 4)})});
  for (const Activation a :
       {Activation::relu, Activation::tanh, Activation::sigmoid, Activation::rectified_quadratic, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    t.insert({"LinearOptions.activation", with<LinearOptions>(flat, layer, {}, {.activation = a})});
    t.insert({"activate.activation", {flat, [](auto& y) { return activate(y, Activation::none); }, [a](auto& y) { return activate(y, a); }}});
  }
  const Tensor signs = Tensor::from(std::vector<index_t>{5, -2, 9}, {3, 1});
  t.insert({"signed_sums_adjoint.d",
            {numbers({3, 2}), [=](auto& y) { return signed_sums_adjoint(signs, y, 5); }, [=](auto& y) { return signed_sums_adjoint(signs, y, 6); }}});
  t.insert({"einsum.equation", {x, [](auto& y) { return einsum("bij->bj", y); }, [](auto& y) { return einsum("bij->bi", y); }}});
  t.insert({"cdist.p", {flat, [=](auto& y) { return cdist(y, w, 2); }, [=](auto& y) { return cdist(y, w, 1); }}});
  t.insert({"cdist.p", {flat, [=](auto& y) { return cdist(y, w, 2); }, [=](auto& y) { return cdist(y, w, inf); }}});
}

void add_elementwise(Table& t) {
  const Tensor x = numbers({40});
  t.insert({"leaky_relu.slope", {x, [](auto& y) { return leaky_relu(y); }, [](auto& y) { return leaky_relu(y, 0.2); }}});
  t.insert({"elu.alpha", {x, [](auto& y) { return elu(y); }, [](auto& y) { return elu(y, 0.5); }}});
  t.insert({"softplus.beta", {x, [](auto& y) { return softplus(y); }, [](auto& y) { return softplus(y, 2.0); }}});
  t.insert({"clamp.low", {x, [](auto& y) { return clamp(y, -1, 1); }, [](auto& y) { return clamp(y, -0.5, 1); }}});
  t.insert({"clamp.high", {x, [](auto& y) { return clamp(y, -1, 1); }, [](auto& y) { return clamp(y, -1, 0.5); }}});
  t.insert({"cast.dtype", {x, [](auto& y) { return cast(y, DType::f32); }, [](auto& y) { return cast(y, DType::i64); }}});
  t.insert({"scalar_like.value", {x, [](auto& y) { return scalar_like(y, 1); }, [](auto& y) { return scalar_like(y, 2); }}});
  t.insert({"dropout.p", {x, [](auto& y) { return dropout(y, 0.5); }, [](auto& y) { return dropout(y, 0.25); }}});
  t.insert({"dropout_mask.p", {x, [](auto& y) { return dropout_mask(y, 0.5); }, [](auto& y) { return dropout_mask(y, 0.1); }}});
  t.insert({"dropout_mask.seed", {x, [](auto& y) { return dropout_mask(y, 0.5); }, [](auto& y) { return dropout_mask(y, 0.5, 1); }}});
  const auto drop = [](const Tensor& y, const DropoutOptions& o) { return dropout(y, 0.5, o); };
  t.insert({"DropoutOptions.training", with<DropoutOptions>(x, drop, {}, {.training = false})});
  t.insert({"DropoutOptions.always_on", with<DropoutOptions>(x, drop, {.training = false}, {.training = false, .always_on = true})});
  t.insert({"DropoutOptions.seed", with<DropoutOptions>(x, drop, {}, {.seed = 3})});
  const Tensor stream = random_stream(x);
  t.insert({"dropout_by_stream.p",
            {x, [=](auto& y) { return dropout_by_stream(y, stream, 0.5, 0); }, [=](auto& y) { return dropout_by_stream(y, stream, 0.25, 0); }}});
  t.insert({"dropout_by_stream.seed",
            {x, [=](auto& y) { return dropout_by_stream(y, stream, 0.5, 0); }, [=](auto& y) { return dropout_by_stream(y, stream, 0.5, 1); }}});
}

template <class Options>
void add_reduction(Table& t, const char* type, const Tensor& x, const std::function<Tensor(const Tensor&, const Options&)>& f) {
  t.insert({cat(type, ".reduction"), with<Options>(x, f, {}, {.reduction = Reduction::sum})});
  t.insert({cat(type, ".reduction"), with<Options>(x, f, {}, {.reduction = Reduction::none})});
}

void add_losses(Table& t) {
  const Tensor x = numbers({5, 3}), other = numbers({5, 3}, 2), share = positive({5, 3}, 3), weights = positive({3}, 4);
  const Tensor classes = Tensor::from(std::vector<index_t>{0, 2, 1, 1, 0}, {5}), soft = softmax(other);
  using F = Tensor (*)(const Tensor&, const Tensor&, const LossOptions&);
  for (const F f : {F(mse_loss), F(l1_loss), F(kl_div)})
    add_reduction<LossOptions>(t, "LossOptions", x, [=](const Tensor& y, const LossOptions& o) { return f(y, share, o); });
  const auto huber = [=](const Tensor& y, const HuberOptions& o) { return huber_loss(y, other, o); };
  add_reduction<HuberOptions>(t, "HuberOptions", x, huber);
  t.insert({"HuberOptions.delta", with<HuberOptions>(x, huber, {}, {.delta = 0.1})});
  const auto bce = [=](const Tensor& y, const BceOptions& o) { return bce_with_logits(y, share, o); };
  add_reduction<BceOptions>(t, "BceOptions", x, bce);
  t.insert({"BceOptions.positive_weight", with<BceOptions>(x, bce, {}, {.positive_weight = weights})});
  const auto hinge = [=](const Tensor& y, const HingeOptions& o) { return hinge_loss(y, sign(other), o); };
  add_reduction<HingeOptions>(t, "HingeOptions", x, hinge);
  t.insert({"HingeOptions.margin", with<HingeOptions>(x, hinge, {}, {.margin = 2})});
  const auto nll = [=](const Tensor& y, const NllOptions& o) { return nll_loss(y, classes, o); };
  add_reduction<NllOptions>(t, "NllOptions", x, nll);
  t.insert({"NllOptions.ignore_index", with<NllOptions>(x, nll, {}, {.ignore_index = 1})});
  t.insert({"NllOptions.class_weights", with<NllOptions>(x, nll, {}, {.class_weights = weights})});
  const auto entropy = [=](const Tensor& y, const CrossEntropyOptions& o) { return cross_entropy(y, classes, o); };
  const auto soft_entropy = [=](const Tensor& y, const CrossEntropyOptions& o) { return cross_entropy(y, soft, o); };
  t.insert({"CrossEntropyOptions.ignore_index", with<CrossEntropyOptions>(x, entropy, {}, {.ignore_index = 1})});
  for (const auto& f : std::vector<std::function<Tensor(const Tensor&, const CrossEntropyOptions&)>>{entropy, soft_entropy}) {
    add_reduction<CrossEntropyOptions>(t, "CrossEntropyOptions", x, f);
    t.insert({"CrossEntropyOptions.label_smoothing", with<CrossEntropyOptions>(x, f, {}, {.label_smoothing = 0.1})});
    t.insert({"CrossEntropyOptions.class_weights", with<CrossEntropyOptions>(x, f, {}, {.class_weights = weights})});
  }
}

void add_clustering(Table& t) {
  const Tensor z = numbers({2, 6, 3}), p = numbers({4, 3}, 2), points = numbers({2, 6, 3}, 3), centres = numbers({2, 4, 3}, 4);
  const auto kmeans = [=](const Tensor& c, const SmoothedKmeansOptions& o) { return smoothed_kmeans_loss(points, c, o); };
  add_reduction<SmoothedKmeansOptions>(t, "SmoothedKmeansOptions", centres, kmeans);
  t.insert({"SmoothedKmeansOptions.inverse_temperature", with<SmoothedKmeansOptions>(centres, kmeans, {}, {.inverse_temperature = 3.0})});
  t.insert({"boltzmann_assignment.tau", {z, [=](auto& y) { return boltzmann_assignment(y, p); }, [=](auto& y) { return boltzmann_assignment(y, p, 0.5); }}});
  const auto energy = [=](const Tensor& y, const FreeEnergyOptions& o) { return ddcl_free_energy(y, p, o); };
  add_reduction<FreeEnergyOptions>(t, "FreeEnergyOptions", z, energy);
  t.insert({"FreeEnergyOptions.tau", with<FreeEnergyOptions>(z, energy, {}, {.tau = 0.5})});
  const auto terms = [=](const Tensor& y, const DdclOptions& o) { return ddcl_terms(y, p, o).quantization; };
  add_reduction<DdclOptions>(t, "DdclOptions", z, terms);
  t.insert({"DdclOptions.tau", with<DdclOptions>(z, terms, {}, {.tau = 0.5})});
  t.insert({"DdclOptions.stop_gradient", with<DdclOptions>(z, terms, {}, {.stop_gradient = true})});
  for (const auto& f : std::vector<std::function<Tensor(const Tensor&, const LossOptions&)>>{
           [=](const Tensor&y, const LossOptions&o) { return ddcl_quantization(y, p, boltzmann_assignment(y, p), o); },
           [=](const Tensor&y, const LossOptions&o) { return ddcl_reconstruction(y, p, boltzmann_assignment(y, p), o); },
           [=](const Tensor&y, const LossOptions&o) { return ddcl_variance(p, boltzmann_assignment(y, p), o); }})
    add_reduction<LossOptions>(t, "LossOptions", z, f);
  const auto vq = [=](const Tensor& y, const VqOptions& o) { return vq_loss(y, p, o); };
  const auto hard = [=](const Tensor& y, const VqOptions& o) { return hard_quantize(y, p, o).loss; };
  for (const auto& f : std::vector<std::function<Tensor(const Tensor&, const VqOptions&)>>{vq, hard}) {
    add_reduction<VqOptions>(t, "VqOptions", z, f);
    t.insert({"VqOptions.commitment", with<VqOptions>(z, f, {}, {.commitment = 1.0})});
  }
  const auto soft = [=](const Tensor& y, const SoftVqOptions& o) { return soft_quantize(y, p, o).loss; };
  const auto output = [=](const Tensor& y, const SoftVqOptions& o) { return soft_quantize(y, p, o).output; };
  add_reduction<SoftVqOptions>(t, "SoftVqOptions", z, soft);
  t.insert({"SoftVqOptions.tau", with<SoftVqOptions>(z, soft, {}, {.tau = 0.5})});
  t.insert({"SoftVqOptions.tau", with<SoftVqOptions>(z, output, {}, {.tau = 0.5})});
  t.insert({"SoftVqOptions.commitment", with<SoftVqOptions>(z, soft, {}, {.commitment = 1.0})});
  t.insert({"SoftVqOptions.hard_output", with<SoftVqOptions>(z, output, {}, {.hard_output = true})});
}

Table all_changes() {
  Table t;
  add_elementwise(t);
  add_reductions(t);
  add_layout(t);
  add_maps(t);
  add_attention(t);
  add_windows(t);
  add_norms_and_linear(t);
  add_losses(t);
  add_clustering(t);
  return t;
}

// Parameters that name something and do not compute: of look-ups, not of ops.
const std::set<std::string> of_no_op = {"name_of.kind", "map_kind.name", "hardmax_tolerance.dtype"};

}  // namespace

TEST_CASE("every_parameter_of_every_op_matters") {
  for (const auto& [name, change] : all_changes()) {
    INFO(name);
    CHECK(matters(change));
  }
}

TEST_CASE("every_parameter_in_the_public_headers_has_a_change_in_the_table") {
  const std::set<std::string> declared = parameters_of_all_ops();
  const Table table = all_changes();
  REQUIRE(declared.size() > 130);
  for (const std::string& parameter : declared) {
    INFO(parameter);
    CHECK((table.count(parameter) > 0 || of_no_op.count(parameter) > 0));
  }
  for (const auto& [name, change] : table) {
    INFO(name << " is in the table only");
    CHECK(declared.count(name) > 0);
  }
}
