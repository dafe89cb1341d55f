// SPDX-License-Identifier: GPL-2.0
/*
 * C++ with many virtual calls; see program.h. Trees of expressions, of a dozen classes, are built,
 * evaluated, simplified and printed through their virtual functions. A pipeline of filters uses
 * containers and std::function.
 */
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "program.h"

namespace {

using Variables = std::vector<double>;

struct Node;
using Tree = std::unique_ptr<Node>;

struct Node {
	virtual ~Node() = default;
	virtual double evaluate(const Variables &v) const = 0;
	virtual void print(std::string &to) const = 0;
	virtual Tree clone() const = 0;
	virtual bool is_constant() const { return false; }
	virtual int depth() const { return 1; }
};

struct Constant final : Node {
	double value;

	explicit Constant(double v) : value(v) {}
	double evaluate(const Variables &) const override { return value; }
	void print(std::string &to) const override { to += std::to_string(static_cast<int>(value)); }
	Tree clone() const override { return std::make_unique<Constant>(value); }
	bool is_constant() const override { return true; }
};

struct Variable final : Node {
	unsigned int number;

	explicit Variable(unsigned int n) : number(n) {}
	double evaluate(const Variables &v) const override { return v[number]; }
	void print(std::string &to) const override { to += static_cast<char>('a' + number); }
	Tree clone() const override { return std::make_unique<Variable>(number); }
};

struct Unary : Node {
	Tree operand;

	explicit Unary(Tree t) : operand(std::move(t)) {}
	bool is_constant() const override { return operand->is_constant(); }
	int depth() const override { return 1 + operand->depth(); }
	virtual char sign() const = 0;
	void print(std::string &to) const override
	{
		to += sign();
		operand->print(to);
	}
};

struct Binary : Node {
	Tree left, right;

	Binary(Tree l, Tree r) : left(std::move(l)), right(std::move(r)) {}
	bool is_constant() const override { return left->is_constant() && right->is_constant(); }
	int depth() const override { return 1 + std::max(left->depth(), right->depth()); }
	virtual char sign() const = 0;
	void print(std::string &to) const override
	{
		to += '(';
		left->print(to);
		to += sign();
		right->print(to);
		to += ')';
	}
};

#define UNARY(Name, character, expression) \
	struct Name final : Unary { \
		using Unary::Unary; \
		double evaluate(const Variables &v) const override \
		{ \
			double x = operand->evaluate(v); \
			return expression; \
		} \
		char sign() const override { return character; } \
		Tree clone() const override { return std::make_unique<Name>(operand->clone()); } \
	}

#define BINARY(Name, character, expression) \
	struct Name final : Binary { \
		using Binary::Binary; \
		double evaluate(const Variables &v) const override \
		{ \
			double x = left->evaluate(v), y = right->evaluate(v); \
			return expression; \
		} \
		char sign() const override { return character; } \
		Tree clone() const override \
		{ \
			return std::make_unique<Name>(left->clone(), right->clone()); \
		} \
	}

UNARY(Negate, '-', -x);
UNARY(Half, 'h', x * 0.5);
UNARY(Absolute, 'a', x < 0 ? -x : x);
UNARY(Clamp, 'c', std::clamp(x, -1e6, 1e6));
BINARY(Add, '+', x + y);
BINARY(Subtract, '-', x - y);
BINARY(Multiply, '*', x * y * 0.001);
BINARY(Minimum, '<', std::min(x, y));
BINARY(Maximum, '>', std::max(x, y));
BINARY(Divide, '/', y != 0 ? x / y : x);

Tree grow(unsigned long *seed, int depth)
{
	unsigned long r = program_random(seed);

	if (!depth || r % 16 == 0) {
		if (r & 32)
			return std::make_unique<Constant>(static_cast<double>(r >> 8 & 1023));
		return std::make_unique<Variable>(r >> 8 & 7);
	}
	auto next = [&] { return grow(seed, depth - 1); };
	Tree left = next();

	switch (r >> 8 & 15) {
	case 0: return std::make_unique<Negate>(std::move(left));
	case 1: return std::make_unique<Half>(std::move(left));
	case 2: return std::make_unique<Absolute>(std::move(left));
	case 3: return std::make_unique<Clamp>(std::move(left));
	case 4: case 5: case 6: return std::make_unique<Add>(std::move(left), next());
	case 7: case 8: return std::make_unique<Subtract>(std::move(left), next());
	case 9: case 10: return std::make_unique<Multiply>(std::move(left), next());
	case 11: return std::make_unique<Minimum>(std::move(left), next());
	case 12: case 13: return std::make_unique<Maximum>(std::move(left), next());
	default: return std::make_unique<Divide>(std::move(left), next());
	}
}

/* Filters in a row, each behind a virtual function: some classes, many calls. */
struct Filter {
	virtual ~Filter() = default;
	virtual double next(double x) = 0;
};

struct Delay final : Filter {
	double last = 0;

	double next(double x) override { return std::exchange(last, x); }
};

struct Smooth final : Filter {
	double mean = 0;

	double next(double x) override { return mean += (x - mean) * 0.125; }
};

struct Mapped final : Filter {
	std::function<double(double)> map;

	explicit Mapped(std::function<double(double)> m) : map(std::move(m)) {}
	double next(double x) override { return map(x); }
};

unsigned long run_trees()
{
	unsigned long h = PROGRAM_HASH, seed = 1;

	for (int n = 0; n < 40; n++) {
		Tree tree = grow(&seed, 11);
		Tree copy = tree->clone();
		Variables v(8);
		double sum = 0;

		for (int round = 0; round < 500; round++) {
			for (double &x : v)
				x = static_cast<double>(program_random(&seed) & 1023);
			sum += copy->evaluate(v);
		}
		h = program_hash(h, &sum, sizeof(sum));

		std::string text;
		tree->print(text);
		h = program_hash(h, text.data(), text.size());
		h += copy->depth() + copy->is_constant();
	}
	return h;
}

unsigned long run_filters()
{
	std::vector<std::unique_ptr<Filter>> filters;
	std::map<int, int> histogram;
	unsigned long h = PROGRAM_HASH;

	for (int i = 0; i < 8; i++) {
		filters.push_back(std::make_unique<Delay>());
		filters.push_back(std::make_unique<Smooth>());
		filters.push_back(std::make_unique<Mapped>([i](double x) { return x + i; }));
		filters.push_back(std::make_unique<Mapped>([](double x) { return x * 0.9; }));
	}
	for (int n = 0; n < 350000; n++) {
		double x = n % 1000;

		for (auto &filter : filters)
			x = filter->next(x);
		histogram[static_cast<int>(x) / 4]++;
	}
	for (const auto &[bin, count] : histogram) {
		h = program_hash(h, &bin, sizeof(bin));
		h = program_hash(h, &count, sizeof(count));
	}
	return h;
}

} // namespace

extern "C" const char *program_version(void)
{
	return "GCC " __VERSION__;
}

extern "C" void program_prepare(void)
{
}

extern "C" unsigned long program_work(void)
{
	return run_trees() ^ run_filters();
}
