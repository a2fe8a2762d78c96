"""Grade-school word problems as templates.

A template's numbers are drawn from ranges, or follow from others ("a": "q * b", so that a / b has no rest). A
step such as ``{total=a*b}`` is one calculation: it writes ``4 * 3 = <<4*3=12>>12``, as GSM8K's answers do,
and names its result. The last step's result is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Template:
    """One kind of problem.

    Attributes:
        name: names it in its split.
        question: with numbers in braces, and {name}, {other}, {items}, {things}, {place} to fill in.
        numbers: range of each, or how it follows from those before it.
        steps: sentences of the worked answer, a calculation each.
    """

    name: str
    question: str
    numbers: dict[str, Range | str]
    steps: tuple[str, ...]


def _t(name: str, question: str, numbers: dict[str, Range | str], *steps: str) -> Template:
    return Template(name, question, numbers, steps)


TRAINED = (
    # One step.
    _t(
        "buy", "{name} buys {a} {items} at {b} dollars each. How many dollars does {name} pay?",
        {"a": (2, 12), "b": (2, 20)},
        "{name} pays {total=a*b} dollars.",
    ),
    _t(
        "join", "{name} has {a} {items} and {other} has {b} {items}. How many {items} do they have together?",
        {"a": (3, 99), "b": (3, 99)},
        "Together they have {total=a+b} {items}.",
    ),
    _t(
        "left", "There are {a} {items} in the {place}. {name} takes {b} of them. How many {items} are left?",
        {"a": (10, 120), "b": (3, 90)},
        "There are {left=a-b} {items} left.",
    ),
    _t(
        "share", "{name} shares {a} {items} equally among {b} friends. How many {items} does each friend get?",
        {"q": (2, 15), "b": (2, 10), "a": "q*b"},
        "Each friend gets {each=a/b} {items}.",
    ),
    _t(
        "rows", "The {place} has {a} rows with {b} chairs in each row. How many chairs are there?",
        {"a": (2, 12), "b": (3, 20)},
        "There are {total=a*b} chairs.",
    ),
    _t(
        "older", "{name} is {a} years old. {other} is {b} years older. How old is {other}?",
        {"a": (3, 60), "b": (2, 30)},
        "{other} is {age=a+b} years old.",
    ),
    _t(
        "fewer", "{name} collected {a} {items}. {other} collected {b} fewer. How many {items} did {other} collect?",
        {"a": (12, 99), "b": (3, 60)},
        "{other} collected {count=a-b} {items}.",
    ),
    _t(
        "times", "{name} has {a} {items}. {other} has {b} times as many. How many {items} does {other} have?",
        {"a": (2, 25), "b": (2, 9)},
        "{other} has {count=a*b} {items}.",
    ),
    _t(
        "pages", "A book has {a} pages. {name} reads {b} pages each day. How many days does {name} need?",
        {"q": (2, 15), "b": (3, 12), "a": "q*b"},
        "{name} needs {days=a/b} days.",
    ),
    _t(
        "half", "{name} had {a} {items} and gave half of them to {other}. How many {items} did {other} get?",
        {"q": (2, 60), "a": "q*2"},
        "{other} got {half=a/2} {items}.",
    ),
    # Two steps.
    _t(
        "change", "{name} buys {a} {items} for {b} dollars each and pays with {c} dollars. How much change does {name} get?",
        {"a": (2, 9), "b": (2, 12), "c": (20, 120)},
        "The {items} cost {cost=a*b} dollars.", "{name} gets {change=c-cost} dollars back.",
    ),
    _t(
        "two_kinds", "{name} buys {a} {items} at {b} dollars each and one bag for {c} dollars. How many dollars is that in all?",
        {"a": (2, 10), "b": (2, 12), "c": (3, 40)},
        "The {items} cost {cost=a*b} dollars.", "In all that is {total=cost+c} dollars.",
    ),
    _t(
        "boxes", "{name} packs {a} {items} into boxes of {b}. Each box sells for {c} dollars. How many dollars does {name} earn?",
        {"q": (2, 10), "b": (2, 10), "a": "q*b", "c": (2, 15)},
        "There are {boxes=a/b} boxes.", "{name} earns {total=boxes*c} dollars.",
    ),
    _t(
        "give_find", "{name} had {a} {items}, gave {b} to {other} and then found {c} more. How many {items} does {name} have now?",
        {"a": (15, 99), "b": (3, 60), "c": (2, 60)},
        "After giving some away {name} had {kept=a-b} {items}.", "Now {name} has {total=kept+c} {items}.",
    ),
    _t(
        "week", "{name} runs {a} miles each morning and {b} miles each evening. How many miles does {name} run in {c} days?",
        {"a": (1, 9), "b": (1, 9), "c": (3, 14)},
        "Each day {name} runs {day=a+b} miles.", "In that time {name} runs {total=day*c} miles.",
    ),
    _t(
        "share_rest", "{name} has {a} {items}, keeps {b} and shares the rest equally among {c} friends. How many {items} does each friend get?",
        {"q": (2, 12), "c": (2, 9), "b": (2, 30), "r": "q*c", "a": "r+b"},
        "{name} shares {rest=a-b} {items}.", "Each friend gets {each=rest/c} {items}.",
    ),
    _t(
        "twice_total", "{name} picked {a} {items}. {other} picked {b} times as many. How many {items} did they pick together?",
        {"a": (2, 20), "b": (2, 8)},
        "{other} picked {count=a*b} {items}.", "Together they picked {total=a+count} {items}.",
    ),
    _t(
        "saved", "{name} saves {a} dollars each week for {b} weeks and then spends {c} dollars. How many dollars are left?",
        {"a": (3, 15), "b": (2, 12), "c": (3, 99)},
        "{name} saves {saved=a*b} dollars.", "There are {left=saved-c} dollars left.",
    ),
    _t(
        "trays", "A baker makes {a} trays of {b} {items}. {c} of them burn. How many {items} are good?",
        {"a": (2, 10), "b": (4, 15), "c": (2, 40)},
        "The baker makes {made=a*b} {items}.", "{good=made-c} {items} are good.",
    ),
    _t(
        "difference", "{name} has {a} boxes of {b} {items}. {other} has {c} {items}. How many more {items} does {name} have?",
        {"a": (3, 12), "b": (4, 12), "c": (2, 60)},
        "{name} has {count=a*b} {items}.", "{name} has {more=count-c} more {items}.",
    ),
    _t(
        "half_more", "{name} scored {a} points in the first game and half as many in the second. How many points is that together?",
        {"q": (2, 50), "a": "q*2"},
        "In the second game {name} scored {second=a/2} points.", "Together that is {total=a+second} points.",
    ),
    _t(
        "tickets", "A ticket costs {a} dollars. {b} children and {c} adults go. How many dollars do they pay?",
        {"a": (2, 12), "b": (2, 12), "c": (2, 8)},
        "There are {people=b+c} people.", "They pay {total=people*a} dollars.",
    ),
    _t(
        "bus", "A bus has {a} people. At the {place} {b} get off and {c} get on. How many people are on the bus then?",
        {"a": (10, 60), "b": (2, 40), "c": (2, 30)},
        "After some get off there are {stay=a-b} people.", "Then there are {total=stay+c} people on the bus.",
    ),
    _t(
        "per_hour", "{name} makes {a} {items} an hour. After {b} hours {name} sells them for {c} dollars each. How many dollars is that?",
        {"a": (2, 9), "b": (2, 8), "c": (2, 9)},
        "{name} makes {count=a*b} {items}.", "That is {total=count*c} dollars.",
    ),
    _t(
        "age_sum", "{name} is {a} years old and {other} is {b} years younger. What is the sum of their ages?",
        {"a": (10, 70), "b": (2, 40)},
        "{other} is {age=a-b} years old.", "The sum of their ages is {total=a+age}.",
    ),
    _t(
        "shelves", "The {place} has {a} shelves with {b} {items} each. {name} adds {c} {items}. How many {items} are there now?",
        {"a": (2, 12), "b": (3, 15), "c": (3, 60)},
        "At first there are {first=a*b} {items}.", "Now there are {total=first+c} {items}.",
    ),
    # Three steps.
    _t(
        "two_prices", "{name} buys {a} {items} at {b} dollars each and {c} {things} at {d} dollars each. How many dollars does {name} pay?",
        {"a": (2, 9), "b": (2, 12), "c": (2, 9), "d": (2, 12)},
        "The {items} cost {first=a*b} dollars.", "The {things} cost {second=c*d} dollars.",
        "{name} pays {total=first+second} dollars.",
    ),
    _t(
        "profit", "{name} buys {a} {items} for {b} dollars each and sells them all for {c} dollars each. How many dollars does {name} gain?",
        {"a": (2, 10), "b": (2, 9), "c": (5, 20)},
        "{name} spends {spent=a*b} dollars.", "{name} earns {earned=a*c} dollars.",
        "{name} gains {gain=earned-spent} dollars.",
    ),
    _t(
        "split_bill", "{a} friends eat meals for {b} dollars each and drinks for {c} dollars in all. They share the bill equally with {name}, who ate nothing. How many people pay, and how many dollars is the bill?",
        {"a": (2, 9), "b": (4, 15), "c": (5, 40)},
        "{people=a+1} people pay.", "The meals cost {meals=a*b} dollars.", "The bill is {bill=meals+c} dollars.",
    ),
    _t(
        "three_days", "{name} sold {a} {items} on Monday, {b} more than that on Tuesday and {c} on Wednesday. How many {items} did {name} sell in all?",
        {"a": (5, 60), "b": (2, 30), "c": (5, 60)},
        "On Tuesday {name} sold {tuesday=a+b} {items}.", "In the first two days {name} sold {two=a+tuesday} {items}.",
        "In all {name} sold {total=two+c} {items}.",
    ),
    _t(
        "family", "{name} has {a} {items}. {other} has {b} times as many and their sister has {c} fewer than {other}. How many {items} do {other} and the sister have together?",
        {"a": (3, 15), "b": (2, 6), "c": (2, 20)},
        "{other} has {count=a*b} {items}.", "The sister has {sister=count-c} {items}.",
        "Together they have {total=count+sister} {items}.",
    ),
    _t(
        "garden", "{name} plants {a} rows of {b} {items}. {c} of them do not grow, and the rest are sold in bunches of {d}. How many bunches is that?",
        {"q": (2, 9), "d": (2, 6), "a": (3, 9), "b": (4, 9), "m": "a*b", "g": "q*d", "c": "m-g"},
        "{name} plants {planted=a*b} {items}.", "{grown=planted-c} of them grow.", "That is {bunches=grown/d} bunches.",
    ),
    _t(
        "wages", "{name} works {a} hours at {b} dollars an hour and gets {c} dollars in tips. {d} dollars go to lunch. How many dollars are left?",
        {"a": (2, 10), "b": (6, 20), "c": (3, 40), "d": (3, 20)},
        "{name} earns {wage=a*b} dollars.", "With tips that is {sum=wage+c} dollars.", "There are {left=sum-d} dollars left.",
    ),
    _t(
        "classes", "A school has {a} classes of {b} children. {c} children are ill and the others go to the {place} in groups of {d}. How many groups are there?",
        {"q": (3, 12), "d": (3, 8), "a": (2, 6), "b": (10, 25), "m": "a*b", "g": "q*d", "c": "m-g"},
        "There are {children=a*b} children.", "{going=children-c} of them go.", "There are {groups=going/d} groups.",
    ),
    _t(
        "eggs", "A farm has {a} hens that lay {b} eggs each a week. {name} uses {c} eggs and sells the rest for {d} dollars each. How many dollars is that?",
        {"a": (2, 9), "b": (3, 7), "c": (2, 30), "d": (2, 5)},
        "The hens lay {eggs=a*b} eggs.", "{name} sells {sold=eggs-c} eggs.", "That is {total=sold*d} dollars.",
    ),
    _t(
        "reading", "{name} reads {a} pages a day for {b} days. The book has {c} pages. {name} wants to finish in {d} more days. How many pages a day is that?",
        {"q": (2, 15), "d": (2, 8), "a": (3, 12), "b": (2, 8), "m": "a*b", "r": "q*d", "c": "m+r"},
        "{name} has read {read=a*b} pages.", "There are {left=c-read} pages left.", "That is {each=left/d} pages a day.",
    ),
    _t(
        "paint", "A wall needs {a} cans of paint. {name} paints {b} walls, and a can costs {c} dollars. {other} pays half of it. How many dollars does {other} pay?",
        {"a": (2, 6), "b": (2, 8), "c": (2, 10), "e": "a*b", "f": "e*c", "g": "f/2"},
        "{name} needs {cans=a*b} cans.", "They cost {cost=cans*c} dollars.", "{other} pays {half=cost/2} dollars.",
    ),
    _t(
        "marbles", "{name} has {a} bags of {b} {items} and {other} has {c} bags of {d} {items}. How many more {items} does {name} have?",
        {"a": (4, 12), "b": (5, 12), "c": (2, 8), "d": (2, 8)},
        "{name} has {first=a*b} {items}.", "{other} has {second=c*d} {items}.", "{name} has {more=first-second} more {items}.",
    ),
    # Four steps.
    _t(
        "party", "{name} buys {a} {items} at {b} dollars each and {c} {things} at {d} dollars each, and pays with {e} dollars. How many dollars does {name} get back?",
        {"a": (2, 8), "b": (2, 9), "c": (2, 8), "d": (2, 9), "e": (80, 200)},
        "The {items} cost {first=a*b} dollars.", "The {things} cost {second=c*d} dollars.",
        "That is {cost=first+second} dollars.", "{name} gets {back=e-cost} dollars back.",
    ),
    _t(
        "market", "{name} brings {a} baskets of {b} {items} to the {place}, sells {c} of them in the morning and gives {d} to {other}. The rest go into bags of {e}. How many bags is that?",
        {"q": (2, 8), "e": (2, 6), "a": (3, 9), "b": (5, 12), "d": (2, 12), "m": "a*b", "g": "q*e", "n": "m-g", "c": "n-d"},
        "{name} brings {all=a*b} {items}.", "After the morning there are {noon=all-c}.",
        "After the gift there are {rest=noon-d}.", "That is {bags=rest/e} bags.",
    ),
    _t(
        "team", "A team plays {a} games and scores {b} points in each. Another team scores {c} points in each of {d} games. How many points do both teams have, if {e} points are taken from them?",
        {"a": (2, 9), "b": (3, 12), "c": (3, 12), "d": (2, 9), "e": (2, 20)},
        "The first team has {first=a*b} points.", "The other has {second=c*d} points.",
        "Both have {both=first+second} points.", "Then {left=both-e} points are left.",
    ),
    _t(
        "trip", "{name} drives {a} hours at {b} miles an hour and {c} hours at {d} miles an hour. The trip is {e} miles. How many miles are left?",
        {"a": (2, 5), "b": (20, 60), "c": (2, 5), "d": (20, 60), "m": "a*b", "n": "c*d", "s": "m+n", "r": (5, 99), "e": "s+r"},
        "First {name} drives {first=a*b} miles.", "Then {name} drives {second=c*d} miles.",
        "That is {driven=first+second} miles.", "There are {left=e-driven} miles left.",
    ),
)  # fmt: skip

# Never trained on: what an answer to them is worth shows how far the model goes beyond its templates.
UNSEEN = (
    _t(
        "lose", "{name} had {a} {items} and lost {b} of them at the {place}. How many {items} does {name} have?",
        {"a": (10, 99), "b": (3, 60)},
        "{name} has {left=a-b} {items}.",
    ),
    _t(
        "crates", "{name} carries {a} crates. Each crate holds {b} {items}. How many {items} does {name} carry?",
        {"a": (2, 12), "b": (3, 15)},
        "{name} carries {total=a*b} {items}.",
    ),
    _t(
        "lend", "{name} had {a} {items}, lent {b} to {other} and bought {c} new ones. How many {items} does {name} have now?",
        {"a": (15, 99), "b": (3, 60), "c": (2, 60)},
        "After lending {name} had {kept=a-b} {items}.", "Now {name} has {total=kept+c} {items}.",
    ),
    _t(
        "lunch", "Lunch costs {a} dollars. {name} eats there on {b} days and pays with {c} dollars. How many dollars does {name} get back?",
        {"a": (2, 12), "b": (2, 7), "c": (40, 120)},
        "The lunches cost {cost=a*b} dollars.", "{name} gets {back=c-cost} dollars back.",
    ),
    _t(
        "two_farms", "{name} harvests {a} fields with {b} {items} each and {other} harvests {c} fields with {d} {items} each. How many {items} is that together?",
        {"a": (2, 9), "b": (3, 12), "c": (2, 9), "d": (3, 12)},
        "{name} harvests {first=a*b} {items}.", "{other} harvests {second=c*d} {items}.",
        "Together that is {total=first+second} {items}.",
    ),
)  # fmt: skip

NAMES = (
    "Ada Amir Anna Ben Bruno Carla Chen Clara Daniel David Dina Elena Emma Eric Farid Felix Fiona Grace "
    "Hana Hugo Ida Ines Ivan Jack James Jana Jonas Julia Kai Karim Lena Leo Liam Lina Lucas Maria Marta "
    "Max Maya Mia Nadia Nina Noah Nora Olga Omar Oscar Paul Peter Rana Rosa Ruth Sam Sara Simon Sofia "
    "Tara Theo Tom Vera Victor Yara Yusuf Zoe"
).split()
ITEMS = (
    "apples pears plums lemons oranges cookies muffins cakes rolls candles pencils pens books stickers "
    "stamps cards coins marbles shells stones beads buttons flowers roses tulips carrots onions potatoes "
    "tomatoes peppers toys dolls balls kites cups plates bowls bottles jars hats scarves"
).split()
PLACES = ("park museum library market school garden station harbor theater kitchen shop barn").split()
