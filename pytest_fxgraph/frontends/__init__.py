"""Every way from a model to its graphs: symbolic, export, Dynamo, AOT autograd, make_fx; and what each tells of it."""
