"""The last ones: nodes are killed, and the driver goes on with the others."""

import things
from things import there


def test_the_driver_goes_on_where_a_node_is_killed(cluster, driver, made):
    volume = made()
    first = cluster.nodes[0]
    cluster.kill(first)
    try:
        driver.client._first = 0
        driver.extend_volume(volume, 2)
        told = driver.initialize_connection(volume, things.connector())
        assert told['data']['portals']
        driver.terminate_connection(volume, things.connector())
        clone = things.volume(size=2)
        made.kept.append(clone)
        driver.create_cloned_volume(clone, volume)
        assert there(driver, clone)['parent']
        told = driver.get_volume_stats(refresh=True)
        assert told['backend_state'] == 'up'
    finally:
        cluster.start_node(first)
        cluster.until(f'{first} is back', lambda: any(
            node['name'] == first and node['alive']
            for node in driver.client.list('/nodes')))


def test_a_gateway_that_is_dead_is_not_told_to_hosts(cluster, driver, made):
    volume = made()
    last = cluster.nodes[-1]
    cluster.kill(last)
    try:
        cluster.until(f'{last} is missed', lambda: not any(
            node['name'] == last and node['alive']
            for node in driver.client.list('/nodes')))
        told = driver.initialize_connection(volume, things.connector())
        ports = {int(port) for _, port, _ in told['data']['portals']}
        assert ports == {cluster.ports[name]['nvme']
                         for name in cluster.nodes[:-1]}
        driver.terminate_connection(volume, things.connector())
    finally:
        cluster.start_node(last)
        cluster.until(f'{last} is back', lambda: any(
            node['name'] == last and node['alive']
            for node in driver.client.list('/nodes')))
