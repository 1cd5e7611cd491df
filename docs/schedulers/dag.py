"""Airflow: a mapped task for each shard, then one that merges and solves."""
from airflow.decorators import dag, task


@dag(schedule="@daily", catchup=False, default_args={"retries": 3})
def model_of_the_day():
    @task.bash
    def scan(i: int) -> str:
        return f"eigenstream scan /data/{{{{ ds }}}} --shard {i}/16 -o /work/{{{{ ds }}}}/shards"

    @task.bash
    def solve() -> str:
        return "cd /work/{{ ds }} && eigenstream merge shards -o all.state && eigenstream solve all.state -k 8 -o model"

    scan.expand(i=list(range(1, 17))) >> solve()


model_of_the_day()
