"""The main job on the shipped table: ``python -m dpstats``."""

from dpstats import datasets, dp_ols


def main() -> None:
    """Fit hours worked in the Adult table and print the summary."""
    adult, schema = datasets.load_adult()
    fit = dp_ols("hours_per_week ~ age + education_num + C(sex) + C(relationship)", adult, epsilon=1, schema=schema)
    print(fit.summary())


if __name__ == "__main__":
    main()
