"""How the default model is made: problems from a seed, the target, then its draft.

python -m onelaunch.engine.train --out FOLDER              # on one GPU, under 20 minutes
python -m onelaunch.engine.train.problems --split numbers  # held-out problems, a JSON object a line
"""
