"""Grade-school word problems as templates.

A template's numbers are drawn from ranges, or follow from others ("a": "q * b", so that a / b has no rest). A
step such as ``{total=a*b}`` is one calculation: it writes ``4 * 3 = <<4*3=12>>12``, as GSM8K's answers do,
and names its result. The last step's result is the answer. Of words in brackets, ``[has|owns|keeps]``, one is
chosen: people say the same in several ways, and a draft can't know in which.
"""

from __future__ import annotations

from dataclasses import dataclass

Range = tuple[int, int]
_LARGEST = 9999


@dataclass(frozen=True, slots=True)
class Template:
    """One kind of problem.

    Attributes:
        name: names it in its split.
        question: with numbers in braces, and {name}, {other}, {items}, {things}, {place},
            {holders} to fill in.
        numbers: range of each, or how it follows from those before it.
        steps: sentences of the worked answer, a calculation each.
    """

    name: str
    question: str
    numbers: dict[str, Range | str]
    steps: tuple[str, ...]


def calculate(a: int, operation: str, b: int) -> int | None:
    """None when the result is not a whole number from 1 to 9,999."""
    if operation == "/":
        return a // b if a % b == 0 else None
    value = a + b if operation == "+" else a - b if operation == "-" else a * b
    return value if 1 <= value <= _LARGEST else None


def _t(name: str, question: str, numbers: dict[str, Range | str], *steps: str) -> Template:
    return Template(name, question, numbers, steps)


TRAINED = (
    # One step.
    _t(
        "buy", "{name} [buys|orders|picks out] {a} {items} at {b} dollars each. [How many dollars does {name} pay?|What does {name} pay in dollars?|How much does {name} spend?]",
        {"a": (2, 34), "b": (2, 49)},
        "{name} [pays|spends|has to pay] {total=a*b} dollars.",
    ),
    _t(
        "join", "{name} [has|owns|keeps] {a} {items} and {other} [has|owns|keeps] {b} {items}. How many {items} do they have together?",
        {"a": (3, 199), "b": (3, 199)},
        "[Together they have|Both have|Altogether they have|They have] {total=a+b} {items}.",
    ),
    _t(
        "left", "There are {a} {items} in the {place}. {name} takes {b} of them. [How many {items} are left?|How many {items} remain?|How many {items} stay there?]",
        {"a": (10, 239), "b": (3, 179)},
        "[There are|That leaves|They are left with] {left=a-b} {items}.",
    ),
    _t(
        "share", "{name} shares {a} {items} [equally among|evenly among|in equal parts with] {b} friends. [How many {items} does each friend get?|How many {items} is that for each friend?]",
        {"q": (2, 45), "b": (2, 29), "a": "q*b"},
        "[Each friend gets|Each of them gets|For each friend that is|Every friend has] {each=a/b} {items}.",
    ),
    _t(
        "rows", "The {place} has {a} rows with {b} chairs in each row. How many chairs are there?",
        {"a": (2, 34), "b": (3, 49)},
        "[There are|That makes|We count|In all there are] {total=a*b} chairs.",
    ),
    _t(
        "older", "{name} is {a} years old. {other} is {b} years older. How old is {other}?",
        {"a": (3, 60), "b": (2, 30)},
        "{other} is {age=a+b} years old.",
    ),
    _t(
        "fewer", "{name} collected {a} {items}. {other} collected {b} fewer. How many {items} did {other} collect?",
        {"a": (12, 199), "b": (3, 119)},
        "{other} collected {count=a-b} {items}.",
    ),
    _t(
        "times", "{name} [has|owns|keeps] {a} {items}. {other} [has|owns|keeps] {b} [times as many|times that number]. How many {items} does {other} have?",
        {"a": (2, 59), "b": (2, 25)},
        "{other} [has|owns|holds|must have] {count=a*b} {items}.",
    ),
    _t(
        "pages", "A book has {a} pages. {name} reads {b} pages each day. How many days does {name} need?",
        {"q": (2, 45), "b": (3, 34), "a": "q*b"},
        "{name} [needs|now needs|altogether needs] {days=a/b} days.",
    ),
    _t(
        "half", "{name} [had|owned|started with] {a} {items} and gave half of them to {other}. How many {items} did {other} get?",
        {"q": (2, 119), "a": "q*2"},
        "{other} got {half=a/2} {items}.",
    ),
    # Two steps.
    _t(
        "change", "{name} [buys|orders|picks out] {a} {items} for {b} dollars each and pays with {c} dollars. How much change does {name} get?",
        {"a": (2, 25), "b": (2, 34), "c": (20, 899)},
        "[The {items} cost|The {items} come to|For the {items} that is|The price of the {items} is] {cost=a*b} dollars.", "{name} [gets back|receives|gets a change of] {change=c-cost} dollars.",
    ),
    _t(
        "two_kinds", "{name} [buys|orders|picks out] {a} {items} at {b} dollars each and one bag for {c} dollars. [How many dollars is that in all?|How much is that altogether?]",
        {"a": (2, 29), "b": (2, 34), "c": (3, 99)},
        "[The {items} cost|The {items} come to|For the {items} that is|The price of the {items} is] {cost=a*b} dollars.", "[In all that is|Altogether that is|The sum is|That comes to] {total=cost+c} dollars.",
    ),
    _t(
        "boxes", "{name} packs {a} {items} into boxes of {b}. Each box [sells for|goes for|brings] {c} dollars. How many dollars does {name} earn?",
        {"q": (2, 29), "b": (2, 29), "a": "q*b", "c": (2, 45)},
        "[There are|That makes|We count|In all there are] {boxes=a/b} boxes.", "{name} [earns|makes|gets|takes in] {total=boxes*c} dollars.",
    ),
    _t(
        "give_find", "{name} [had|owned|started with] {a} {items}, gave {b} to {other} and then found {c} more. [How many {items} does {name} have now?|How many {items} does {name} end up with?]",
        {"a": (15, 199), "b": (3, 119), "c": (2, 119)},
        "After giving some away {name} had {kept=a-b} {items}.", "[Now {name} has|{name} is left with|In the end {name} has] {total=kept+c} {items}.",
    ),
    _t(
        "week", "{name} runs {a} miles each morning and {b} miles each evening. How many miles does {name} run in {c} days?",
        {"a": (1, 25), "b": (1, 25), "c": (3, 39)},
        "Each day {name} runs {day=a+b} miles.", "In that time {name} runs {total=day*c} miles.",
    ),
    _t(
        "share_rest", "{name} [has|owns|keeps] {a} {items}, keeps {b} and shares the rest [equally among|evenly among|in equal parts with] {c} friends. [How many {items} does each friend get?|How many {items} is that for each friend?]",
        {"q": (2, 34), "c": (2, 25), "b": (2, 75), "r": "q*c", "a": "r+b"},
        "{name} shares {rest=a-b} {items}.", "[Each friend gets|Each of them gets|For each friend that is|Every friend has] {each=rest/c} {items}.",
    ),
    _t(
        "twice_total", "{name} picked {a} {items}. {other} picked {b} [times as many|times that number]. How many {items} did they pick together?",
        {"a": (2, 49), "b": (2, 24)},
        "{other} picked {count=a*b} {items}.", "Together they picked {total=a+count} {items}.",
    ),
    _t(
        "saved", "{name} saves {a} dollars each week for {b} weeks and then spends {c} dollars. [How many dollars are left?|How much money is left?]",
        {"a": (3, 45), "b": (2, 34), "c": (3, 199)},
        "{name} [saves|now saves|altogether saves] {saved=a*b} dollars.", "[There are still|That leaves|What remains is] {left=saved-c} dollars.",
    ),
    _t(
        "trays", "A baker makes {a} trays of {b} {items}. {c} of them burn. How many {items} are good?",
        {"a": (2, 29), "b": (4, 45), "c": (2, 99)},
        "The baker makes {made=a*b} {items}.", "{good=made-c} {items} are good.",
    ),
    _t(
        "difference", "{name} [has|owns|keeps] {a} boxes of {b} {items}. {other} [has|owns|keeps] {c} {items}. How many more {items} does {name} have?",
        {"a": (3, 34), "b": (4, 34), "c": (2, 119)},
        "{name} [has|owns|holds|counts] {count=a*b} {items}.", "{name} [has|owns|holds|counts] {more=count-c} more {items}.",
    ),
    _t(
        "half_more", "{name} scored {a} points in the first game and half as many in the second. How many points is that together?",
        {"q": (2, 99), "a": "q*2"},
        "In the second game {name} scored {second=a/2} points.", "[Together that is|Both together make|The sum is] {total=a+second} points.",
    ),
    _t(
        "tickets", "A ticket costs {a} dollars. {b} children and {c} adults go. How many dollars do they pay?",
        {"a": (2, 34), "b": (2, 34), "c": (2, 24)},
        "[There are|That makes|We count|In all there are] {people=b+c} people.", "[They pay|They spend|All of them pay|The group pays] {total=people*a} dollars.",
    ),
    _t(
        "bus", "A bus has {a} people. At the {place} {b} get off and {c} get on. How many people are on the bus then?",
        {"a": (10, 119), "b": (2, 99), "c": (2, 75)},
        "After some get off there are {stay=a-b} people.", "Then there are {total=stay+c} people on the bus.",
    ),
    _t(
        "per_hour", "{name} makes {a} {items} an hour. After {b} hours {name} sells them for {c} dollars each. [How many dollars is that?|How much money is that?]",
        {"a": (2, 25), "b": (2, 24), "c": (2, 25)},
        "{name} [makes|now makes|altogether makes] {count=a*b} {items}.", "[That is|That makes|This comes to|We get] {total=count*c} dollars.",
    ),
    _t(
        "age_sum", "{name} is {a} years old and {other} is {b} years younger. What is the sum of their ages?",
        {"a": (10, 70), "b": (2, 40)},
        "{other} is {age=a-b} years old.", "The sum of their ages is {total=a+age}.",
    ),
    _t(
        "shelves", "The {place} has {a} shelves with {b} {items} each. {name} adds {c} {items}. How many {items} are there now?",
        {"a": (2, 34), "b": (3, 45), "c": (3, 119)},
        "At first there are {first=a*b} {items}.", "Now there are {total=first+c} {items}.",
    ),
    # Three steps.
    _t(
        "two_prices", "{name} [buys|orders|picks out] {a} {items} at {b} dollars each and {c} {things} at {d} dollars each. [How many dollars does {name} pay?|What does {name} pay in dollars?|How much does {name} spend?]",
        {"a": (2, 25), "b": (2, 34), "c": (2, 25), "d": (2, 34)},
        "[The {items} cost|The {items} come to|For the {items} that is|The price of the {items} is] {first=a*b} dollars.", "[The {things} cost|The {things} come to|For the {things} that is|The price of the {things} is] {second=c*d} dollars.",
        "{name} [pays|spends|has to pay] {total=first+second} dollars.",
    ),
    _t(
        "profit", "{name} [buys|orders|picks out] {a} {items} for {b} dollars each and sells them all for {c} dollars each. How many dollars does {name} gain?",
        {"a": (2, 29), "b": (2, 25), "c": (5, 49)},
        "{name} [spends|now spends|altogether spends] {spent=a*b} dollars.", "{name} [earns|makes|gets|takes in] {earned=a*c} dollars.",
        "{name} gains {gain=earned-spent} dollars.",
    ),
    _t(
        "split_bill", "{a} friends eat meals for {b} dollars each and drinks for {c} dollars in all. They share the bill equally with {name}, who ate nothing. How many people pay, and how many dollars is the bill?",
        {"a": (2, 25), "b": (4, 45), "c": (5, 99)},
        "{people=a+1} people pay.", "The meals cost {meals=a*b} dollars.", "The bill is {bill=meals+c} dollars.",
    ),
    _t(
        "three_days", "{name} sold {a} {items} on Monday, {b} more than that on Tuesday and {c} on Wednesday. How many {items} did {name} sell in all?",
        {"a": (5, 119), "b": (2, 75), "c": (5, 119)},
        "On Tuesday {name} sold {tuesday=a+b} {items}.", "In the first two days {name} sold {two=a+tuesday} {items}.",
        "In all {name} sold {total=two+c} {items}.",
    ),
    _t(
        "family", "{name} [has|owns|keeps] {a} {items}. {other} [has|owns|keeps] {b} [times as many|times that number] and their sister has {c} fewer than {other}. How many {items} do {other} and the sister have together?",
        {"a": (3, 45), "b": (2, 18), "c": (2, 49)},
        "{other} [has|owns|holds|must have] {count=a*b} {items}.", "The sister has {sister=count-c} {items}.",
        "[Together they have|Both have|Altogether they have|They have] {total=count+sister} {items}.",
    ),
    _t(
        "garden", "{name} plants {a} rows of {b} {items}. {c} of them do not grow, and the rest are sold in bunches of {d}. How many bunches is that?",
        {"q": (2, 25), "d": (2, 18), "a": (3, 25), "b": (4, 25), "m": "a*b", "g": "q*d", "c": "m-g"},
        "{name} [plants|now plants|altogether plants] {planted=a*b} {items}.", "{grown=planted-c} of them grow.", "[That is|That makes|This comes to|We get] {bunches=grown/d} bunches.",
    ),
    _t(
        "wages", "{name} works {a} hours at {b} dollars an hour and gets {c} dollars in tips. {d} dollars go to lunch. [How many dollars are left?|How much money is left?]",
        {"a": (2, 29), "b": (6, 49), "c": (3, 99), "d": (3, 49)},
        "{name} [earns|makes|gets|takes in] {wage=a*b} dollars.", "With tips that is {sum=wage+c} dollars.", "[There are still|That leaves|What remains is] {left=sum-d} dollars.",
    ),
    _t(
        "classes", "A school has {a} classes of {b} children. {c} children are ill and the others go to the {place} in groups of {d}. How many groups are there?",
        {"q": (3, 34), "d": (3, 24), "a": (2, 18), "b": (10, 59), "m": "a*b", "g": "q*d", "c": "m-g"},
        "[There are|That makes|We count|In all there are] {children=a*b} children.", "{going=children-c} of them go.", "[There are|That makes|We count|In all there are] {groups=going/d} groups.",
    ),
    _t(
        "eggs", "A farm has {a} hens that lay {b} eggs each a week. {name} uses {c} eggs and sells the rest for {d} dollars each. [How many dollars is that?|How much money is that?]",
        {"a": (2, 25), "b": (3, 20), "c": (2, 75), "d": (2, 15)},
        "The hens lay {eggs=a*b} eggs.", "{name} [sells|now sells|altogether sells] {sold=eggs-c} eggs.", "[That is|That makes|This comes to|We get] {total=sold*d} dollars.",
    ),
    _t(
        "reading", "{name} reads {a} pages a day for {b} days. The book has {c} pages. {name} wants to finish in {d} more days. How many pages a day is that?",
        {"q": (2, 45), "d": (2, 24), "a": (3, 34), "b": (2, 24), "m": "a*b", "r": "q*d", "c": "m+r"},
        "{name} has read {read=a*b} pages.", "[There are still|That leaves|What remains is] {left=c-read} pages.", "[That is|That makes|This comes to|We get] {each=left/d} pages a day.",
    ),
    _t(
        "paint", "A wall needs {a} cans of paint. {name} paints {b} walls, and a can costs {c} dollars. {other} pays half of it. How many dollars does {other} pay?",
        {"a": (2, 18), "b": (2, 24), "c": (2, 29), "e": "a*b", "f": "e*c", "g": "f/2"},
        "{name} [needs|now needs|altogether needs] {cans=a*b} cans.", "They cost {cost=cans*c} dollars.", "{other} pays {half=cost/2} dollars.",
    ),
    _t(
        "marbles", "{name} [has|owns|keeps] {a} bags of {b} {items} and {other} [has|owns|keeps] {c} bags of {d} {items}. How many more {items} does {name} have?",
        {"a": (4, 34), "b": (5, 34), "c": (2, 24), "d": (2, 24)},
        "{name} [has|owns|holds|counts] {first=a*b} {items}.", "{other} [has|owns|holds|must have] {second=c*d} {items}.", "{name} [has|owns|holds|counts] {more=first-second} more {items}.",
    ),
    # Four steps.
    _t(
        "party", "{name} [buys|orders|picks out] {a} {items} at {b} dollars each and {c} {things} at {d} dollars each, and pays with {e} dollars. How many dollars does {name} get back?",
        {"a": (2, 24), "b": (2, 25), "c": (2, 24), "d": (2, 25), "e": (80, 1499)},
        "[The {items} cost|The {items} come to|For the {items} that is|The price of the {items} is] {first=a*b} dollars.", "[The {things} cost|The {things} come to|For the {things} that is|The price of the {things} is] {second=c*d} dollars.",
        "[That is|That makes|This comes to|We get] {cost=first+second} dollars.", "{name} [gets back|receives|gets a change of] {back=e-cost} dollars.",
    ),
    _t(
        "market", "{name} brings {a} baskets of {b} {items} to the {place}, sells {c} of them in the morning and gives {d} to {other}. The rest go into bags of {e}. How many bags is that?",
        {"q": (2, 24), "e": (2, 18), "a": (3, 25), "b": (5, 34), "d": (2, 34), "m": "a*b", "g": "q*e", "n": "m-g", "c": "n-d"},
        "{name} [brings|now brings|altogether brings] {all=a*b} {items}.", "After the morning there are {noon=all-c}.",
        "After the gift there are {rest=noon-d}.", "[That is|That makes|This comes to|We get] {bags=rest/e} bags.",
    ),
    _t(
        "team", "A team plays {a} games and scores {b} points in each. Another team scores {c} points in each of {d} games. How many points do both teams have, if {e} points are taken from them?",
        {"a": (2, 25), "b": (3, 34), "c": (3, 34), "d": (2, 25), "e": (2, 49)},
        "The first team has {first=a*b} points.", "The other has {second=c*d} points.",
        "Both have {both=first+second} points.", "Then {left=both-e} points are left.",
    ),
    _t(
        "trip", "{name} drives {a} hours at {b} miles an hour and {c} hours at {d} miles an hour. The trip is {e} miles. How many miles are left?",
        {"a": (2, 5), "b": (20, 60), "c": (2, 5), "d": (20, 60), "m": "a*b", "n": "c*d", "s": "m+n", "r": (5, 99), "e": "s+r"},
        "First {name} drives {first=a*b} miles.", "Then {name} drives {second=c*d} miles.",
        "[That is|That makes|This comes to|We get] {driven=first+second} miles.", "[There are still|That leaves|What remains is] {left=e-driven} miles.",
    ),
    # More kinds.
    _t(
        "lose", "{name} [had|owned|started with] {a} {items} and lost {b} of them at the {place}. How many {items} does {name} have?",
        {"a": (10, 199), "b": (3, 119)},
        "{name} [has|owns|is left with|holds] {left=a-b} {items}.",
    ),
    _t(
        "crates", "{name} carries {a} crates. Each crate holds {b} {items}. How many {items} does {name} carry?",
        {"a": (2, 34), "b": (3, 45)},
        "{name} [carries|now carries|altogether carries] {total=a*b} {items}.",
    ),
    _t(
        "lend", "{name} [had|owned|started with] {a} {items}, lent {b} to {other} and bought {c} new ones. [How many {items} does {name} have now?|How many {items} does {name} end up with?]",
        {"a": (15, 199), "b": (3, 119), "c": (2, 119)},
        "After lending {name} had {kept=a-b} {items}.", "[Now {name} has|{name} is left with|In the end {name} has] {total=kept+c} {items}.",
    ),
    _t(
        "lunch", "Lunch costs {a} dollars. {name} eats there on {b} days and pays with {c} dollars. How many dollars does {name} get back?",
        {"a": (2, 34), "b": (2, 20), "c": (40, 699)},
        "The lunches cost {cost=a*b} dollars.", "{name} [gets back|receives|gets a change of] {back=c-cost} dollars.",
    ),
    _t(
        "two_farms", "{name} harvests {a} fields with {b} {items} each and {other} harvests {c} fields with {d} {items} each. How many {items} is that together?",
        {"a": (2, 25), "b": (3, 34), "c": (2, 25), "d": (3, 34)},
        "{name} [harvests|now harvests|altogether harvests] {first=a*b} {items}.", "{other} harvests {second=c*d} {items}.",
        "[Together that is|Both together make|The sum is] {total=first+second} {items}.",
    ),
)  # fmt: skip

# Never trained on, though their words are: what an answer to them is worth shows how far the model goes beyond
# what it knows.
UNSEEN = (
    _t(
        "broken_chairs", "The {place} has {a} rows with {b} chairs in each row. {c} of them break. How many chairs are good?",
        {"a": (2, 34), "b": (3, 49), "c": (2, 99)},
        "[There are|That makes|We count|In all there are] {chairs=a*b} chairs.", "{good=chairs-c} chairs are good.",
    ),
    _t(
        "times_older", "{name} is {a} years old. {other} is {b} times as old. How old is {other}?",
        {"a": (2, 30), "b": (2, 9)},
        "{other} is {age=a*b} years old.",
    ),
    _t(
        "second_game", "{name} scored {a} points in the first game and {b} fewer in the second. How many points did {name} get in the second game?",
        {"a": (12, 199), "b": (3, 119)},
        "In the second game {name} scored {second=a-b} points.",
    ),
    _t(
        "bake_share", "A baker makes {a} trays of {b} {items} and shares them equally among {c} children. How many {items} does each get?",
        {"q": (2, 34), "a": (2, 24), "c": (2, 24), "b": "q*c"},
        "The baker makes {made=a*b} {items}.", "[Each of them gets|For each that is|Everyone has] {each=made/c} {items}.",
    ),
    _t(
        "pages_left", "A book has {a} pages. {name} reads {b} pages each day for {c} days. How many pages are left?",
        {"b": (3, 34), "c": (2, 24), "m": "b*c", "r": (2, 199), "a": "m+r"},
        "{name} has read {read=b*c} pages.", "[There are still|That leaves|What remains is] {left=a-read} pages.",
    ),
    _t(
        "ticket_change", "A ticket costs {a} dollars. {b} children go and pay with {c} dollars. How much change do they get?",
        {"a": (2, 34), "b": (2, 24), "c": (20, 899)},
        "They pay {cost=a*b} dollars.", "They get back {change=c-cost} dollars.",
    ),
    _t(
        "half_bus", "A bus has {a} people. At the {place} half of them get off and {b} get on. How many people are on the bus then?",
        {"q": (5, 60), "a": "q*2", "b": (2, 75)},
        "After some get off there are {stay=a/2} people.", "Then there are {total=stay+b} people on the bus.",
    ),
    _t(
        "hens_boxes", "A farm has {a} hens that lay {b} eggs each a week. {name} puts the eggs into boxes of {c}. How many boxes is that?",
        {"q": (2, 24), "a": (2, 25), "c": (2, 18), "b": "q*c"},
        "The hens lay {eggs=a*b} eggs.", "[That is|That makes|This comes to|We get] {boxes=eggs/c} boxes.",
    ),
    _t(
        "two_runners", "{name} runs {a} miles each morning and {other} runs {b} miles each morning. How many more miles does {name} run in {c} days?",
        {"b": (1, 24), "d": (1, 24), "a": "b+d", "c": (3, 39)},
        "Each day {name} runs {more=a-b} more miles.", "In that time {name} runs {total=more*c} more miles.",
    ),
    _t(
        "two_wages", "{name} works {a} hours at {b} dollars an hour and {other} works {c} hours at {d} dollars an hour. How many dollars do they earn together?",
        {"a": (2, 29), "b": (6, 49), "c": (2, 29), "d": (6, 49)},
        "{name} [earns|makes|gets|takes in] {first=a*b} dollars.", "{other} [earns|makes|gets|takes in] {second=c*d} dollars.",
        "[Together that is|Both together make|The sum is] {total=first+second} dollars.",
    ),
    _t(
        "cans_left", "A wall needs {a} cans of paint. {name} has {b} cans and paints {c} walls. How many cans are left?",
        {"a": (2, 18), "c": (2, 24), "m": "a*c", "r": (2, 99), "b": "m+r"},
        "{name} [needs|now needs|altogether needs] {cans=a*c} cans.", "[There are still|That leaves|What remains is] {left=b-cans} cans.",
    ),
    _t(
        "four_games", "A team plays {a} games and scores {b} points in each, then it plays {c} games and scores {d} points in each. Another team has {e} points fewer. How many points does that team have?",
        {"a": (2, 25), "b": (3, 34), "c": (2, 25), "d": (3, 34), "e": (2, 49)},
        "First the team has {first=a*b} points.", "Then it has {second=c*d} points.",
        "[That is|That makes|This comes to|We get] {both=first+second} points.", "That team has {fewer=both-e} points.",
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
HOLDERS = "boxes bags baskets crates packs".split()
