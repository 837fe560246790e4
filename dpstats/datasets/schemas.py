"""What is publicly known of the columns of the shipped tables.

Bounds and levels come from the codebooks, from survey top-codes and from units. None is a minimum, maximum or quantile
of the rows; some levels and parts of some ranges may never occur. The order of `education` is the order of schooling.
"""

from dpstats.specification.schema import Binary, Categorical, Continuous, Schema

ADULT = Schema(
    {
        "age": Continuous(17, 90),
        "workclass": Categorical(
            [
                "Private",
                "Self-emp-not-inc",
                "Self-emp-inc",
                "Federal-gov",
                "Local-gov",
                "State-gov",
                "Without-pay",
                "Never-worked",
            ]
        ),
        "fnlwgt": Continuous(0, 1_500_000),
        "education": Categorical(
            [
                "Preschool",
                "1st-4th",
                "5th-6th",
                "7th-8th",
                "9th",
                "10th",
                "11th",
                "12th",
                "HS-grad",
                "Some-college",
                "Assoc-voc",
                "Assoc-acdm",
                "Bachelors",
                "Masters",
                "Prof-school",
                "Doctorate",
            ]
        ),
        "education_num": Continuous(1, 16),
        "marital_status": Categorical(
            [
                "Married-civ-spouse",
                "Divorced",
                "Never-married",
                "Separated",
                "Widowed",
                "Married-spouse-absent",
                "Married-AF-spouse",
            ]
        ),
        "occupation": Categorical(
            [
                "Tech-support",
                "Craft-repair",
                "Other-service",
                "Sales",
                "Exec-managerial",
                "Prof-specialty",
                "Handlers-cleaners",
                "Machine-op-inspct",
                "Adm-clerical",
                "Farming-fishing",
                "Transport-moving",
                "Priv-house-serv",
                "Protective-serv",
                "Armed-Forces",
            ]
        ),
        "relationship": Categorical(
            ["Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"],
        ),
        "race": Categorical(["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"]),
        "sex": Categorical(["Female", "Male"]),
        "capital_gain": Continuous(0, 99_999),
        "capital_loss": Continuous(0, 5_000),
        "hours_per_week": Continuous(1, 99),
        "native_country": Categorical(
            [
                "United-States",
                "Cambodia",
                "England",
                "Puerto-Rico",
                "Canada",
                "Germany",
                "Outlying-US(Guam-USVI-etc)",
                "India",
                "Japan",
                "Greece",
                "South",
                "China",
                "Cuba",
                "Iran",
                "Honduras",
                "Philippines",
                "Italy",
                "Poland",
                "Jamaica",
                "Vietnam",
                "Mexico",
                "Portugal",
                "Ireland",
                "France",
                "Dominican-Republic",
                "Laos",
                "Ecuador",
                "Taiwan",
                "Haiti",
                "Columbia",
                "Hungary",
                "Guatemala",
                "Nicaragua",
                "Scotland",
                "Thailand",
                "Yugoslavia",
                "El-Salvador",
                "Trinadad&Tobago",
                "Peru",
                "Hong",
                "Holand-Netherlands",
            ]
        ),
        "income": Categorical(["<=50K", ">50K"]),
        "income_gt50k": Binary(),
    }
)

BANK = Schema(
    {
        "age": Continuous(18, 100),
        "job": Categorical(
            [
                "admin.",
                "blue-collar",
                "entrepreneur",
                "housemaid",
                "management",
                "retired",
                "self-employed",
                "services",
                "student",
                "technician",
                "unemployed",
                "unknown",
            ]
        ),
        "marital": Categorical(["divorced", "married", "single"]),
        "education": Categorical(["primary", "secondary", "tertiary", "unknown"]),
        "default": Categorical(["no", "yes"]),
        "balance": Continuous(-10_000, 100_000),
        "housing": Categorical(["no", "yes"]),
        "loan": Categorical(["no", "yes"]),
        "contact": Categorical(["cellular", "telephone", "unknown"]),
        "day": Continuous(1, 31),
        "month": Categorical(
            ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
        ),
        "duration": Continuous(0, 3_600),
        "campaign": Continuous(1, 50),
        "pdays": Continuous(-1, 1_000),
        "previous": Continuous(0, 50),
        "poutcome": Categorical(["failure", "other", "success", "unknown"]),
        "y": Categorical(["no", "yes"]),
    }
)
