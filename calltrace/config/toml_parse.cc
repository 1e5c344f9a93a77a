// toml_parse - all of the library in C++ that anybody here sees.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include <cpptoml.h>

#include "calltrace/config/toml.h"

extern "C" {
#include "watchctl/base/error.h"
}

namespace
{

char *copy(const std::string &s)
{
	auto *ret = static_cast<char *>(std::malloc(s.size() + 1));

	if (!ret)
		throw std::bad_alloc();
	std::memcpy(ret, s.c_str(), s.size() + 1);
	return ret;
}

class List
{
      public:
	void add(const cpptoml::table &t, const std::string &name, unsigned int index)
	{
		std::vector<std::string> keys;

		for (const auto &entry : t)
			keys.push_back(entry.first);
		std::sort(keys.begin(), keys.end());
		for (const auto &key : keys)
			add_value(*t.get(key), name, index, key);
	}

	std::vector<toml_value> values;

      private:
	toml_value &append(const std::string &table, unsigned int index, const std::string *key)
	{
		toml_value v{};

		v.table = copy(table);
		v.index = index;
		v.key = key ? copy(*key) : nullptr;
		v.type = TOML_OTHER;
		values.push_back(v);
		return values.back();
	}

	void add_value(cpptoml::base &b, const std::string &table, unsigned int index, const std::string &key)
	{
		if (b.is_table_array() && table.empty()) {
			unsigned int i = 0;

			for (const auto &each : b.as_table_array()->get()) {
				append(key, i, nullptr);
				add(*each, key, i++);
			}
		} else if (b.is_array() && !b.as_array()->get().empty()) {
			for (const auto &each : b.as_array()->get()) {
				auto &value = append(table, index, &key);

				value.is_of_list = true;
				add_scalar(*each, value);
			}
		} else {
			add_scalar(b, append(table, index, &key));
		}
	}

	static void add_scalar(cpptoml::base &b, toml_value &v)
	{
		if (const auto text = b.as<std::string>()) {
			v.type = TOML_STRING;
			v.len = text->get().size();
			v.string = copy(text->get());
		} else if (const auto number = b.as<std::int64_t>()) {
			v.type = TOML_INTEGER;
			v.number = number->get();
		} else if (const auto flag = b.as<bool>()) {
			v.type = TOML_BOOL;
			v.is_true = flag->get();
		}
	}
};

// The library has the line at the end of its sentence.
wc_error *syntax_error(const toml *t, const std::string &what)
{
	static const std::string at = " at line ";
	const auto found = what.rfind(at);
	const auto line =
		found == std::string::npos ? 0 : std::strtoul(&what[found + at.size()], nullptr, 10);

	return toml_syntax_error(t, static_cast<unsigned int>(line), what.substr(0, found).c_str());
}

} // namespace

extern "C" wc_error *toml_parse(toml *t)
{
	try {
		std::istringstream in{ t->text };
		List list;

		list.add(*cpptoml::parser{ in }.parse(), "", 0);
		t->value = static_cast<toml_value *>(std::calloc(list.values.size() + 1, sizeof(toml_value)));
		if (!t->value)
			return &wc_enomem;
		std::copy(list.values.begin(), list.values.end(), t->value);
		t->n = list.values.size();
	} catch (const std::bad_alloc &) {
		return &wc_enomem;
	} catch (const std::exception &e) {
		return syntax_error(t, e.what());
	}
	return nullptr;
}
