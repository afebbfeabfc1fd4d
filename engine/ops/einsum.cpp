// Einstein sums of one or two tensors: diagonals and lone axes first, then one product of matrices.
#include <algorithm>
#include <cctype>

#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/linear.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus {
namespace {

using define::Inputs;

// ---- the equation -----------------------------------------------------------------------------------------------------

// The name of every axis: a letter's code, or -1, -2, ... for the axes of "..." from the last one on.
using Labels = Dims;
struct Equation {
  Labels operands[2], output;
};

int place(const Labels& labels, index_t label) {
  for (int i = 0; i < labels.rank(); ++i)
    if (labels[i] == label) return i;
  return -1;
}
bool contains(const Labels& labels, index_t label) { return place(labels, label) >= 0; }
std::string name_of_label(index_t label) { return label < 0 ? cat("axis ", label, " of '...'") : cat("'", static_cast<char>(label), "'"); }

[[noreturn]] void malformed(std::string_view equation, const std::string& problem) {
  throw ValueError("einsum", cat("'", equation, "': ", problem), "write it like 'bij,bjk->bik'");
}

// One operand or the output as written. Nothing here allocates: an equation is read anew at every call.
struct Term {
  Labels before, after;  // letters on either side of "..."
  bool ellipsis = false;

  [[nodiscard]] Labels labels(int further) const {
    Labels all = before;
    for (int i = further; ellipsis && i >= 1; --i) all.push_back(-i);
    for (const index_t letter : after) all.push_back(letter);
    return all;
  }
};

Term parse_term(std::string_view equation, std::string_view text) {
  Term term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.substr(i, 3) == "...") {
      if (term.ellipsis) malformed(equation, "'...' stands twice in one term");
      term.ellipsis = true;
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      (term.ellipsis ? term.after : term.before).push_back(text[i]);
    } else {
      malformed(equation, cat("'", text[i], "' is no label"));
    }
  }
  return term;
}

// Without "->": the letters that occur once, sorted.
Term implicit_output(std::span<const Term> terms) {
  Term output;
  for (const Term& term : terms) output.ellipsis = output.ellipsis || term.ellipsis;
  for (index_t letter = 'A'; letter <= 'z'; ++letter) {
    std::ptrdiff_t times = 0;
    for (const Term& term : terms)
      for (const Labels* part : {&term.before, &term.after}) times += std::count(part->begin(), part->end(), letter);
    if (times == 1) output.after.push_back(letter);
  }
  return output;
}

Equation parse(std::string_view equation, std::span<const Tensor* const> operands) {
  const std::size_t arrow = equation.find("->");
  std::array<Term, 2> terms;
  std::size_t count = 0;
  for (std::string_view left = equation.substr(0, arrow);;) {
    const std::size_t comma = left.find(',');
    if (count < terms.size()) terms[count] = parse_term(equation, left.substr(0, comma));
    ++count;
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  if (count != operands.size()) malformed(equation, cat("it names ", count, " operands, not ", operands.size()));
  Equation result;
  int most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Shape& shape = operands[i]->shape();
    const int further = shape.rank() - terms[i].before.rank() - terms[i].after.rank();
    if (further < 0 || (further > 0 && !terms[i].ellipsis))
      throw ShapeError("einsum", cat("operand ", i, " of '", equation, "' has shape ", shape), "name each of its axes, or let '...' stand for some");
    result.operands[i] = terms[i].labels(further);
    most = std::max(most, further);
  }
  const Term output = arrow == std::string_view::npos ? implicit_output(std::span(terms).first(count)) : parse_term(equation, equation.substr(arrow + 2));
  if (most > 0 && !output.ellipsis) malformed(equation, "the output lacks '...'");
  result.output = output.labels(most);
  for (int i = 0; i < result.output.rank(); ++i) {
    const index_t label = result.output[i];
    if (place(result.output, label) != i) malformed(equation, cat("the output has ", name_of_label(label), " twice"));
    if (!contains(result.operands[0], label) && !contains(result.operands[1], label))
      malformed(equation, cat(name_of_label(label), " of the output is in no operand"));
  }
  return result;
}

// The size of a label. Letters must agree everywhere; the axes of "..." broadcast.
index_t size_of_label(const Run& r, index_t label) {
  index_t size = -1;
  for (int i = 0; i < r.inputs(); ++i) {
    const Labels& labels = r.attr<Equation>().operands[i];
    for (int axis = 0; axis < labels.rank(); ++axis) {
      if (labels[axis] != label) continue;
      const index_t here = r.in(i).shape()[axis];
      if (size < 0 || (label < 0 && size == 1)) size = here;
      else if (here != size && !(label < 0 && here == 1))
        throw ShapeError(
            "einsum", cat(name_of_label(label), " is ", size, " and ", here, " in operands of shapes ", r.in(0).shape(), " and ", r.in(r.inputs() - 1).shape()),
            "axes of one name have one size");
    }
  }
  return size;
}

// ---- its evaluation ---------------------------------------------------------------------------------------------------

struct Operand {
  Tensor tensor;
  Labels labels;

  [[nodiscard]] index_t size(index_t label) const { return tensor.shape()[place(labels, label)]; }
};

Operand permuted(const Operand& x, const Labels& order) {
  Dims axes;
  for (const index_t label : order) axes.push_back(place(x.labels, label));
  return {permute(x.tensor, axes), order};
}

// A label twice: its two axes become one that walks the diagonal.
Operand with_diagonals(Operand x) {
  for (int i = 0; i < x.labels.rank(); ++i) {
    int twin = i + 1;
    while (twin < x.labels.rank() && x.labels[twin] != x.labels[i]) ++twin;
    if (twin == x.labels.rank()) continue;
    Dims axes;
    Shape shape;
    Labels labels;
    for (int k = 0; k < x.labels.rank(); ++k) {
      if (k == i || k == twin) continue;
      axes.push_back(k);
      shape.push_back(x.tensor.shape()[k]);
      labels.push_back(x.labels[k]);
    }
    const index_t n = x.tensor.shape()[i];
    axes.push_back(i);
    axes.push_back(twin);
    shape.push_back(n * n);
    labels.push_back(x.labels[i]);
    return with_diagonals({slice(reshape(permute(x.tensor, axes), shape), -1, {Slice::none, Slice::none, n + 1}), labels});
  }
  return x;
}

// Sums over the labels that nobody else has.
Operand without_lone(const Operand& x, const Labels& other, const Labels& output) {
  Operand result;
  ReduceOptions lone;
  for (int i = 0; i < x.labels.rank(); ++i) {
    if (contains(other, x.labels[i]) || contains(output, x.labels[i])) result.labels.push_back(x.labels[i]);
    else lone.axes.push_back(i);
  }
  result.tensor = lone.axes.empty() ? x.tensor : sum(x.tensor, lone);
  return result;
}

// Axes of "..." that broadcast against the other operand are left to it.
Operand without_stretched(const Operand& x, const Operand& other) {
  Shape shape;
  Labels labels;
  for (int i = 0; i < x.labels.rank(); ++i) {
    const index_t label = x.labels[i];
    if (label < 0 && x.tensor.shape()[i] == 1 && contains(other.labels, label) && other.size(label) != 1) continue;
    labels.push_back(label);
    shape.push_back(x.tensor.shape()[i]);
  }
  return {labels.rank() == x.labels.rank() ? x.tensor : reshape(x.tensor, shape), labels};
}

// Groups of labels as the axes of one matrix each, or of a stack of them.
Tensor as_matrices(const Operand& x, const Labels& batch, const Labels& rows, const Labels& columns) {
  Labels order;
  Shape shape;
  for (const Labels* group : {&batch, &rows, &columns}) {
    index_t size = 1;
    for (const index_t label : *group) {
      order.push_back(label);
      size *= x.size(label);
    }
    if (group != &batch || !batch.empty()) shape.push_back(size);
  }
  return reshape(permuted(x, order).tensor, shape);
}

Operand product(const Operand& a, const Operand& b, const Labels& output) {
  Labels batch, left, right, summed, labels;
  for (const index_t label : a.labels) (!contains(b.labels, label) ? left : contains(output, label) ? batch : summed).push_back(label);
  for (const index_t label : b.labels)
    if (!contains(a.labels, label)) right.push_back(label);
  Shape shape;
  for (const Labels* group : {&batch, &left, &right})
    for (const index_t label : *group) {
      labels.push_back(label);
      shape.push_back(group == &right ? b.size(label) : a.size(label));
    }
  return {reshape(matmul(as_matrices(a, batch, left, summed), as_matrices(b, batch, summed, right)), shape), labels};
}

const OpDef einsum_op = {
    .name = "einsum",
    .family = "linear algebra",
    .formula = R"(y_{o} = \sum_{s} a_{i(o, s)} b_{j(o, s)})",
    .shapes = "named by the equation: \"bij,bjk->bik\"",
    .law = "letters of one name have one size, '...' broadcasts; sums of nothing are 0",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          if (r.inputs() > 1) define::require_same_dtype(r, 0, 1);
          const auto& equation = r.attr<Equation>();
          for (int i = 0; i < r.inputs(); ++i)
            for (const index_t label : equation.operands[i]) (void)size_of_label(r, label);
          Shape shape;
          for (const index_t label : equation.output) shape.push_back(size_of_label(r, label));
          r.declare(shape, r.in(0).dtype());
        },
    .composite =
        [](Run& r) {
          const auto& [operands, output] = r.attr<Equation>();
          Operand a = with_diagonals({r.in(0), operands[0]});
          if (r.inputs() == 1) return permuted(without_lone(a, {}, output), output).tensor;
          Operand b = with_diagonals({r.in(1), operands[1]});
          a = without_lone(a, b.labels, output);
          b = without_lone(b, a.labels, output);
          const Operand narrow = without_stretched(a, b);
          return permuted(product(narrow, without_stretched(b, a), output), output).tensor;
        },
    .cases =
        [] {
          const auto in = [](const Shape& shape) { return normal_input(shape); };
          return std::vector<OpCase>{
              {"batched product", {in({2, 3, 4}), in({2, 4, 5})}, [](Inputs x) { return einsum("bij,bjk->bik", x[0], x[1]); }},
              {"implicit output", {in({3, 4}), in({5, 4})}, [](Inputs x) { return einsum("ki,ji", x[0], x[1]); }},
              {"outer product", {in({3}), in({2, 2})}, [](Inputs x) { return einsum("i,jk->kij", x[0], x[1]); }},
              {"elementwise", {in({3, 4}), in({4, 3})}, [](Inputs x) { return einsum("ij,ji->ij", x[0], x[1]); }},
              {"all summed", {in({3, 4}), in({3, 4})}, [](Inputs x) { return einsum("ij,ij->", x[0], x[1]); }},
              {"two summed apart", {in({2, 3, 4}), in({4, 5, 2})}, [](Inputs x) { return einsum("aib,bja->ji", x[0], x[1]); }},
              {"lone axes", {in({2, 3, 4}), in({3, 5})}, [](Inputs x) { return einsum("aib,ic->b", x[0], x[1]); }},
              {"a diagonal", {in({3, 2, 3}), in({3, 2})}, [](Inputs x) { return einsum("iki,ij->kj", x[0], x[1]); }},
              {"ellipses broadcast", {in({2, 1, 3, 4}), in({5, 4, 2})}, [](Inputs x) { return einsum("...ij,...jk->...ik", x[0], x[1]); }},
              {"an ellipsis, implicit", {in({2, 3, 4}), in({4})}, [](Inputs x) { return einsum("...a,a", x[0], x[1]); }},
              {"trace", {in({4, 4})}, [](Inputs x) { return einsum("ii", x[0]); }},
              {"one operand", {in({2, 3, 4, 3})}, [](Inputs x) { return einsum("b i c i -> c b", x[0]); }},
              {"diagonal of three", {in({3, 3, 3})}, [](Inputs x) { return einsum("iii->i", x[0]); }},
              {"nothing summed", {in({3, 0}), in({0, 2})}, [](Inputs x) { return einsum("ij,jk->ik", x[0], x[1]); }},
              {"empty", {in({0, 3}), in({3, 2})}, [](Inputs x) { return einsum("ij,jk", x[0], x[1]); }}};
        },
};

Tensor run_einsum(std::string_view equation, std::initializer_list<const Tensor*> operands) {
  return apply(einsum_op, operands, parse(equation, std::span(operands.begin(), operands.size())));
}

}  // namespace

Tensor einsum(std::string_view equation, const Tensor& a) { return run_einsum(equation, {&a}); }
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b) { return run_einsum(equation, {&a, &b}); }

std::span<const OpDef* const> einsum_ops() {
  static const OpDef* const all[] = {&einsum_op};
  return all;
}

}  // namespace gradus
